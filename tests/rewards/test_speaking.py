"""The speaking reward: changes of belief, by hand and in sum."""

import jax
import numpy as np
import pytest

from agentrl import rewards

# Players 0 (imposter), 1, 2, and 3, who is dead; four surveys around three messages.
BELIEF = np.float32([[0.9, 0.25, 0.5, 7], [0.9, 0.5, 0.5, 7], [0.9, 0.5, 0.25, 7], [0.9, 1, 1, 7]])
LISTENER = np.broadcast_to(np.array([False, True, True, False]), BELIEF.shape)
IMPOSTER = np.array([True, False, False, False])


def test_worked_numbers():
    # B = 0.75, 1, 0.75, 2; player 2, the imposter, then player 1 speak.
    ours = rewards.speaking_reward(BELIEF, LISTENER, np.array([2, 0, 1]), IMPOSTER)
    np.testing.assert_allclose(ours, [0.25, 0.25, 1.25])
    # Without player 1's own change of mind the last is 0.75.
    ours = rewards.speaking_reward(BELIEF, LISTENER, np.array([2, 0, 1]), IMPOSTER, among="others")
    np.testing.assert_allclose(ours, [0.25, 0.25, 0.75])
    ours = rewards.speaking_reward(BELIEF, LISTENER, np.array([2, -1, -1]), IMPOSTER)
    np.testing.assert_allclose(ours, [0.25, 0, 0])


def test_sums_telescope_and_nothing_else_is_read():
    rng = np.random.default_rng(0)
    belief = rng.random((5, 6, 4)).astype(np.float32)
    listener = np.broadcast_to(rng.random((5, 1, 4)) < 0.7, belief.shape)
    speaker = rng.integers(1, 4, (5, 5))
    discussions = jax.jit(jax.vmap(rewards.speaking_reward, (0, 0, 0, None)))
    ours = discussions(belief, listener, speaker, IMPOSTER)
    change = np.where(listener, belief, 0).sum(-1)
    np.testing.assert_allclose(ours.sum(1), change[:, -1] - change[:, 0], atol=1e-5)
    poisoned = np.where(listener, belief, np.nan)
    np.testing.assert_array_equal(discussions(poisoned, listener, speaker, IMPOSTER), ours)


def test_errors():
    with pytest.raises(ValueError, match="among='some': expected one of 'all', 'others'"):
        rewards.speaking_reward(BELIEF, LISTENER, np.zeros(3, int), IMPOSTER, among="some")
