"""Passes over parts of a batch: the sum is that of the whole, and nothing is left out or added."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.config.build import build
from agentrl.learner.passes import gradients

ROWS, LONGEST = 8, 7


def loss_of(weight, batch):
    """Something that mixes positions and reads no further than it may."""
    values, mask = batch
    memory = jnp.cumsum(jnp.where(mask, values, 0.0) * weight, axis=1)
    return jnp.sum(jnp.where(mask, jnp.tanh(memory), 0.0)), {"count": jnp.sum(mask)}


def head(batch, length):
    return tuple(x[:, :length] for x in batch)


def summed(weight, values, length, microbatch, lengths):
    mask = jnp.arange(LONGEST) < length[:, None]
    options = {"longest": LONGEST, "microbatch": microbatch, "lengths": lengths, "head": head}
    return gradients(loss_of, weight, (values, mask), length, **options)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(0, LONGEST), min_size=ROWS, max_size=ROWS),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([1, 2, 3, LONGEST]),
    st.integers(0, 2**31 - 1),
)
def test_passes_add_up_to_the_whole(length, microbatch, lengths, seed):
    values = jax.random.normal(jax.random.key(seed), (ROWS, LONGEST))
    weight, length = jnp.linspace(0.5, 1.5, LONGEST).mean(), jnp.asarray(length)
    whole = summed(weight, values, length, None, 1)
    parts = summed(weight, values, length, microbatch, lengths)
    assert parts[1]["count"] == length.sum()
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), whole, parts)


def test_rows_without_anything_to_learn_are_not_computed():
    """NaN times nothing is NaN: so it would show if they were."""

    def poisoned(weight, batch):
        return jnp.sum(batch[0] * weight), {}

    values = jnp.ones((ROWS, LONGEST)).at[3].set(jnp.nan).at[5:].set(jnp.nan)
    length = jnp.asarray([7, 1, 2, 0, 4, 0, 0, 0])
    for lengths in (1, 3):
        loss, _, grad = gradients(
            poisoned,
            jnp.ones(()),
            (values,),
            length,
            longest=LONGEST,
            microbatch=2,
            lengths=lengths,
            head=head,
        )
        assert np.isfinite(loss) and np.isfinite(grad)
    # Two passes, of lengths up to 7 and to 2: the second is cut to a third, 3 positions.
    assert loss == 2 * 7 + 2 * 3


def test_a_run_in_passes_is_the_run_at_once():
    def after(**changes):
        changes |= {"log_every": 1, "warm_start__updates": 1, "learner__minibatches": 1}
        experiment = build(tiny.talk_config(**changes))
        state = jax.jit(experiment.init)(0)
        state, warm = jax.jit(tiny.train_of(experiment, "warm_start"))(state)
        state = jax.jit(experiment.restart)(state)
        state, metrics = jax.jit(tiny.train_of(experiment))(state)
        return state.params, warm, metrics

    at_once = after()
    in_passes = after(learner__microbatch=4, learner__lengths=2)
    # Adam divides by what is nearly nothing: its first steps magnify rounding.
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=5e-5, rtol=1e-3), at_once, in_passes
    )


@pytest.mark.parametrize(
    ("config", "changes", "message"),
    [
        (tiny.talk_config, {"learner__lengths": 2}, "set microbatch, or lengths=1"),
        (tiny.groups_config, {"learner__lengths": 2, "learner__microbatch": 4}, "language"),
        (tiny.talk_config, {"learner__lengths": 0}, "lengths=0: expected at least 1"),
        (tiny.talk_config, {"learner__microbatch": 5}, "choose a divisor"),
    ],
)
def test_what_does_not_fit_is_said(config, changes, message):
    with pytest.raises(ValueError, match=message):
        build(config(**changes))
