"""Passes over parts of a batch: the sum is that of the whole, and nothing is left out or added."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.config.build import build
from agentrl.learner.passes import compiled_lengths, gradients, log_probs
from agentrl.policies.language import transformer
from agentrl.streams import Rows
from envs.registry import make

ROWS, LONGEST = 8, 7


def loss_of(weight, batch):
    """Something that mixes positions and reads no further than it may."""
    values, mask = batch
    memory = jnp.cumsum(jnp.where(mask, values, 0.0) * weight, axis=1)
    return jnp.sum(jnp.where(mask, jnp.tanh(memory), 0.0)), {"count": jnp.sum(mask)}


def head(batch, length):
    return tuple(x[:, :length] for x in batch)


@functools.partial(jax.jit, static_argnames=("microbatch", "lengths"))
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
    # Two passes, of lengths up to 7 and to 2: compiled are 2, 4 and 7 positions.
    assert loss == 2 * 7 + 2 * 2


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 5000), st.integers(1, 12), st.floats(0, 0.99))
def test_compiled_lengths_rise_by_one_factor_from_the_shared_positions(longest, number, share):
    shared = int(share * longest)
    found = compiled_lengths(longest, number, shared)
    assert found[-1] == longest and len(found) <= number and found[0] > shared
    assert all(a < b for a, b in zip(found, found[1:], strict=False))
    rest = [size - shared for size in found]
    if number >= 4 and rest[-1] >= 100:
        assert len(found) == number and abs(rest[0] / rest[-1] - 1 / 8) < 0.01
        factors = [b / a for a, b in zip(rest, rest[1:], strict=False)]
        assert max(factors) / min(factors) < 1.15


def test_compiled_lengths_are_worked_numbers():
    assert compiled_lengths(389, 1, 64) == (389,)
    assert compiled_lengths(1000, 2) == (500, 1000)
    # What the shared positions leave, 800, is divided: 100, 200, 400, 800.
    assert compiled_lengths(1000, 4, 200) == (300, 400, 600, 1000)


LENGTHS = (12, 0, 9, 7, 3, 0, 8, 12)


@functools.cache
def talking():
    """A language policy whose rows share an opening, rows of LENGTHS, and their log-probabilities
    in one pass."""
    policy = transformer(make("FrozenLake-v1")[0].view, width=16, layers=2, heads=2, kv_heads=1)
    opening = (3, 5, 4)
    policy = policy._replace(codec=dataclasses.replace(policy.codec, opening=opening))
    tokens = jax.random.randint(jax.random.key(0), (8, 12), 3, policy.config.vocab_size)
    tokens = tokens.at[:, :3].set(jnp.asarray(opening))
    number, length = jnp.arange(12), jnp.asarray(LENGTHS)
    mask = (number < length[:, None]) & ((number % 3 == 2) | (number == length[:, None] - 1))
    mask &= number > 2
    zero = jnp.zeros(mask.shape, jnp.int32)
    rows = Rows(tokens, mask, jnp.arange(8), zero, jnp.zeros(mask.shape), role=zero[:, 0])
    params = jax.jit(policy.init)(jax.random.key(1))
    at_once = jax.jit(functools.partial(log_probs, policy, microbatch=None))(params, rows)
    return policy, params, rows, at_once


@pytest.mark.parametrize(("microbatch", "lengths"), [(2, 1), (2, 3), (4, 4)])
def test_log_probs_in_passes_are_those_of_whole_rows(microbatch, lengths):
    policy, params, rows, at_once = talking()
    # Padding that nothing may read.
    padding = jnp.arange(12) >= jnp.asarray(LENGTHS)[:, None]
    poisoned = rows.replace(tokens=jnp.where(padding, 4, rows.tokens))
    in_passes = jax.jit(
        functools.partial(log_probs, policy, microbatch=microbatch, lengths=lengths)
    )(params, poisoned)
    mask = rows.loss_mask
    np.testing.assert_allclose(in_passes[mask], at_once[mask], atol=1e-5)
    assert np.isfinite(in_passes).all() and (np.abs(at_once[mask]) > 0.1).all()


@pytest.mark.long
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
