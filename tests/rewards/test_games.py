"""Rewards of players: legal turns, draws, long replies."""

import numpy as np
import pytest

from agentrl import rewards


def test_turns_of_a_game_as_marshal_pays_them():
    """A legal turn; a draw; a win with a reply of 2,048 + 2,037 tokens; an illegal end; none."""
    reward = np.float32([[0, 0, 1, -11, np.nan]])
    mask = np.array([[True, True, True, True, False]])
    valid = np.array([[True, True, True, False, True]])
    ends = np.array([[False, True, True, True, True]])
    cost = np.float32([[10, 2048, 4085, 3, 9999]])
    paid = rewards.mars_reward(reward, mask, valid, ends, cost)
    np.testing.assert_allclose(paid, [[0.05, 0.15, 0.55, -11, 0]], rtol=1e-6)
    # An illegal reply that costs nothing in the game is no draw.
    paid = rewards.mars_reward(reward * 0, mask, ~mask, ends, cost * 0)
    np.testing.assert_array_equal(paid, np.zeros((1, 5)))


def test_numbers_that_mean_nothing_are_errors():
    none = np.zeros((1, 1), np.float32)
    with pytest.raises(ValueError, match="mars_reward over"):
        rewards.mars_reward(none, none == 0, none == 0, none == 0, none, over=0)
