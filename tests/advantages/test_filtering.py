"""Top-variance filtering keeps the groups whose returns spread most."""

import jax
import numpy as np
import pytest

from agentrl import advantages

keep = jax.jit(advantages.top_variance, static_argnames="fraction")


def test_worked_numbers():
    """Four groups of two: deviations 0, 1/sqrt(2), 2/sqrt(2), 3/sqrt(2); half of them stay."""
    reward = np.array([[0, 0, 0, 1, 0, 2, 0, 3]], np.float32).T
    mask, group = np.ones((8, 1), bool), np.repeat([7, 3, 5, 1], 2)
    np.testing.assert_array_equal(keep(reward, mask, group, fraction=0.5), [0, 0, 0, 0, 1, 1, 1, 1])
    np.testing.assert_array_equal(keep(reward, mask, group, fraction=0.25), [0] * 6 + [1, 1])
    # A tenth of four groups is one of them at least; the group without spread never stays.
    np.testing.assert_array_equal(keep(reward, mask, group, fraction=0.1), [0] * 6 + [1, 1])
    np.testing.assert_array_equal(keep(reward, mask, group, fraction=1.0), [0, 0] + [1] * 6)


def test_the_share_is_rounded_down():
    reward = np.array([[0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7]], np.float32).T
    mask, group = np.ones((14, 1), bool), np.repeat(np.arange(7), 2)
    # int(0.4 * 7) = 2, as in RAGEN's code.
    np.testing.assert_array_equal(keep(reward, mask, group, fraction=0.4), [0] * 10 + [1] * 4)


def test_the_worked_example_of_starpo():
    reward = np.array([[0, 1, 0, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 1]], np.float32).T
    mask, group = np.ones((16, 1), bool), np.repeat(np.arange(4), 4)
    np.testing.assert_array_equal(keep(reward, mask, group, fraction=0.25), [1] * 4 + [0] * 12)


def test_ties_go_to_the_first_group():
    reward = np.array([[0, 1, 0, 1]], np.float32).T
    kept = keep(reward, np.ones((4, 1), bool), np.array([4, 4, 2, 2]), fraction=0.5)
    np.testing.assert_array_equal(kept, [1, 1, 0, 0])


def test_padding_and_absent_streams_are_not_read():
    reward = np.array([[0, 1], [0, 5], [3, 9], [3, 9]], np.float32)
    mask = np.array([[1, 1], [1, 1], [1, 0], [0, 0]], bool)
    group = np.array([0, 0, 1, 1])
    before = keep(reward, mask, group, fraction=0.5)
    np.testing.assert_array_equal(before, [1, 1, 0, 0])
    poisoned = np.where(mask, reward, np.nan)
    np.testing.assert_array_equal(keep(poisoned, mask, group, fraction=0.5), before)


def test_one_spread_group_is_what_dynamic_sampling_keeps():
    reward = np.array([[1, 1, 0, 2, 3, 3]], np.float32).T
    mask, group = np.ones((6, 1), bool), np.repeat([0, 1, 2], 2)
    np.testing.assert_array_equal(
        keep(reward, mask, group, fraction=1.0), advantages.dynamic_sampling(reward, mask, group)
    )


@pytest.mark.parametrize("fraction", [0.0, 1.5])
def test_errors(fraction):
    with pytest.raises(ValueError, match="more than 0 and at most 1"):
        advantages.top_variance(
            np.zeros((1, 1)), np.ones((1, 1), bool), np.zeros(1, int), fraction=fraction
        )
