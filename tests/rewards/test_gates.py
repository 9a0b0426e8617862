"""Rewards behind a gate: worked numbers, what the gate changes, and padding."""

import jax.numpy as jnp
import numpy as np

from agentrl import rewards


def test_a_stream_pays_if_all_of_its_turns_pass():
    mask = jnp.arange(8) < jnp.array([[6], [6], [6], [3]])
    reward = (
        jnp.where(mask, 0.0, jnp.nan)
        .at[jnp.arange(4), jnp.array([5, 5, 5, 2])]
        .set(jnp.array([0.0, 1.0, 1.0, 1.0]))
    )
    valid = jnp.ones((4, 8), bool).at[1, 2].set(False).at[3, 5].set(False)
    got = rewards.verified_reward(reward, mask, valid)
    np.testing.assert_array_equal(got.sum(axis=1), [0, 0, 1, 1])
    assert got[2, 5] == got[3, 2] == 1


def looks(frames):
    return jnp.array([[f in frames for f in range(16)]])


def test_worked_numbers_of_video_mtr():
    """Relevant 3 to 6; the first look has IoU 1/7, the second 2/3, and the answer pays 0.9."""
    relevant = looks({3, 4, 5, 6})
    seen = jnp.stack([looks({0, 4, 8, 12}), looks({3, 4, 5, 6, 7, 8})], axis=1)
    gain = rewards.retrieval_gain(seen, relevant)
    np.testing.assert_allclose(gain, [[0.0, 0.5]])
    # The turn that retrieved is the one before what it shows.
    turn_reward = jnp.array([[0.5, jnp.nan, jnp.nan]]).repeat(2, axis=0)
    mask = jnp.array([[True, True, False]] * 2)
    turn_reward = jnp.where(jnp.arange(3) == 1, 0.0, turn_reward)
    reward = jnp.array([[0.0, 0.9, jnp.nan], [0.0, 0.0, jnp.nan]])
    success = jnp.array([[False, True, False], [False, False, True]])
    formed = jnp.ones((2, 3), bool)
    arrays = (reward, mask, turn_reward, success)
    gated = rewards.gated_turn_rewards(*arrays, well_formed=formed)
    np.testing.assert_array_equal(gated, rewards.gated_turn_rewards(*arrays))
    np.testing.assert_allclose(gated.sum(axis=1), [1.6, 0.1], atol=1e-6)
    ungated = rewards.gated_turn_rewards(*arrays, well_formed=formed, gated=False)
    np.testing.assert_allclose(ungated.sum(axis=1), [1.6, 0.7], atol=1e-6)
    np.testing.assert_allclose(gated[0], [0.6, 1.0, 0.0], atol=1e-6)


def test_without_rewards_of_turns_the_outcome_is_left():
    mask = jnp.ones((2, 3), bool)
    reward = jnp.array([[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    nothing = jnp.zeros((2, 3))
    success = reward > 0
    got = rewards.gated_turn_rewards(reward, mask, nothing, success, format_reward=0.0)
    np.testing.assert_array_equal(got, reward)
