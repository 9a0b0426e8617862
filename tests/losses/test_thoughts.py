"""GTR's losses: a turn's probability with its thought to a power, and cloned thoughts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import losses
from agentrl.streams import ACTION, OBSERVATION, THOUGHT

# Row 0: an observation, a thought of two tokens and an action, twice. Row 1: one turn, padding.
SPAN = jnp.array(
    [
        [OBSERVATION, THOUGHT, THOUGHT, ACTION, OBSERVATION, THOUGHT, THOUGHT, ACTION],
        [OBSERVATION, THOUGHT, ACTION, ACTION, -1, -1, -1, -1],
    ]
)
TURN = jnp.array([[4, 4, 4, 4, 7, 7, 7, 7], [0, 0, 0, 0, -1, -1, -1, -1]])
WRITTEN = (SPAN == THOUGHT) | (SPAN == ACTION)
START = jnp.zeros((2, 8), bool).at[0, 1].set(True).at[0, 5].set(True).at[1, 1].set(True)


def surrogate(logp, old_logp, advantage, **options):
    arrays = (logp, old_logp, advantage, WRITTEN, SPAN, TURN, START)
    return losses.thought_scaled_surrogate(*arrays, **options)


def inputs(seed=0, spread=0.05):
    keys = jax.random.split(jax.random.key(seed), 3)
    old_logp = -jnp.abs(jax.random.normal(keys[0], (2, 8)))
    logp = old_logp + spread * jax.random.normal(keys[1], (2, 8))
    advantage = jax.random.normal(keys[2], (2, 8))
    hidden = jnp.where(WRITTEN, 0.0, jnp.nan)
    return logp + hidden, old_logp + hidden, advantage + hidden


@pytest.mark.parametrize(("thought", "action", "both"), [(-3.2, -0.7, -2.3), (-12.0, -1.5, -7.5)])
def test_the_worked_turn_and_its_gradient(thought, action, both):
    """With kappa 0.5 a thought of -3.2 and an action of -0.7 count -2.3, -12 and -1.5 -7.5."""
    logp = jnp.zeros((2, 8)).at[1, 1].set(thought).at[1, 2].set(action)
    old_logp = logp.at[1, 1].add(-0.2).at[1, 2].add(0.05)
    advantage = jnp.ones((2, 8))
    value, gradient = jax.value_and_grad(
        lambda x: surrogate(x, old_logp, advantage, kappa=0.5)[1].sum()
    )(logp)
    ratio = np.exp(both - (0.5 * (thought - 0.2) + action + 0.05))
    np.testing.assert_allclose(value, -ratio, rtol=1e-6)
    np.testing.assert_allclose(
        gradient[1], [0, -0.5 * ratio, -ratio, -ratio, 0, 0, 0, 0], rtol=1e-6
    )
    assert not gradient[0, 4:].any() or jnp.isfinite(gradient).all()


@pytest.mark.parametrize("kappa", [0.0, 0.3, 1.0])
def test_it_equals_plain_loops(kappa):
    logp, old_logp, advantage = inputs(spread=0.2)
    got = np.asarray(surrogate(logp, old_logp, advantage, kappa=kappa))
    expected = np.zeros((2, 8))
    for row, first in ((0, 1), (0, 5), (1, 1)):
        own = (np.asarray(TURN[row]) == TURN[row, first]) & np.asarray(WRITTEN[row])
        weight = np.where(np.asarray(SPAN[row]) == THOUGHT, kappa, 1.0)
        ratio = np.exp(np.sum((weight * np.asarray(logp - old_logp)[row])[own]))
        a = float(advantage[row, first])
        expected[row, first] = max(-a * ratio, -a * np.clip(ratio, 0.8, 1.2))
    np.testing.assert_allclose(got, expected, atol=1e-5)


def test_one_action_per_turn_without_thoughts_is_the_clipped_surrogate():
    logp, old_logp, advantage = inputs(spread=0.5)
    only = SPAN == ACTION
    start = only & (jnp.cumsum(only & (TURN == 0), axis=1) <= 1)
    start = start.at[1, 3].set(False)
    mask = only.at[1, 3].set(False)
    arrays = (logp, old_logp, advantage, mask, SPAN, TURN, start)
    np.testing.assert_allclose(
        losses.thought_scaled_surrogate(*arrays),
        losses.clipped_surrogate(logp, old_logp, advantage, start)[0],
        atol=1e-6,
    )


def test_only_thoughts_are_cloned():
    logp, *_ = inputs()
    got = losses.thought_cloning(logp, SPAN, WRITTEN)
    np.testing.assert_array_equal(got, jnp.where(SPAN == THOUGHT, -logp, 0.0))
