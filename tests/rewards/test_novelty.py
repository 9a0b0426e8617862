"""Exploration bonuses: recorded values of E3B, worked numbers, and ends of episodes."""

import jax.numpy as jnp
import numpy as np
import recorded

from agentrl import rewards
from agentrl.rewards.novelty import (
    elliptical_novelty,
    first_visits,
    novelty_gain,
    of_next_turn,
)

DATA = recorded.arrays("token_loss")
PHI = np.asarray(DATA["e3b/h"], np.float32)[None]
BONUS = DATA["e3b/bonus_ridge0.1(no first-step zeroing)"]
ALL, NO_END = np.ones((1, 4), bool), np.zeros((1, 4), bool)


def test_elliptical_bonus_is_the_recorded_one():
    np.testing.assert_allclose(elliptical_novelty(PHI, ALL, NO_END)[0], BONUS, rtol=1e-5)


def test_elliptical_bonus_begins_anew_with_an_episode_and_skips_gaps():
    phi = np.concatenate([PHI, PHI], axis=1)
    end = np.arange(8)[None] == 3
    twice = elliptical_novelty(phi, np.ones((1, 8), bool), end)
    np.testing.assert_allclose(twice[0], np.tile(BONUS, 2), rtol=1e-5)
    gaps = np.insert(PHI, 1, np.nan, axis=1)
    mask = ~np.isnan(gaps[..., 0])
    skipped = elliptical_novelty(np.nan_to_num(gaps), mask, np.zeros((1, 5), bool))
    np.testing.assert_allclose(skipped[0], np.insert(BONUS, 1, 0), rtol=1e-5)


def test_first_visits_per_episode():
    anchor = np.stack([np.array([[1, 2, 1, 1, 2, 2]]), np.zeros((1, 6))], axis=-1)
    mask = np.array([[True, True, True, True, True, False]])
    end = np.array([[False, False, True, False, False, False]])
    np.testing.assert_array_equal(
        first_visits(anchor.astype(np.uint32), mask, end), [[1, 1, 0, 1, 1, 0]]
    )


def test_a_turn_has_the_value_of_the_next_one_of_its_episode():
    values = np.float32([[1, 2, np.nan, 4, 5]])
    mask = np.array([[True, True, False, True, True]])
    end = np.array([[False, False, False, True, False]])
    np.testing.assert_array_equal(of_next_turn(values, mask, end), [[2, 4, 0, 0, 0]])


def test_noveld_and_the_reward_term():
    gain = novelty_gain(jnp.float32([0.9, 0.01]), jnp.float32([0.5, 0.5]))
    np.testing.assert_allclose(gain, [0.85, 0], rtol=1e-6)
    np.testing.assert_allclose(gain[0] * 0.8, 0.68, rtol=1e-6)
    reward, mask = np.float32([[1, 0, np.nan]]), np.array([[True, True, False]])
    novelty = np.float32([[0.5, 2, np.nan]])
    np.testing.assert_array_equal(
        rewards.novelty_bonus(reward, mask, novelty, coefficient=0.5), [[1.25, 1, 0]]
    )
    np.testing.assert_array_equal(
        rewards.novelty_bonus(reward, mask, novelty, coefficient=0.0), [[1, 0, 0]]
    )
