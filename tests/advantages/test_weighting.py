"""Weights of turns by their duration, and of rollouts by what they wrote."""

import jax
import numpy as np
import pytest
import recorded

from agentrl import advantages
from agentrl.advantages.weighting import over_positions
from agentrl.streams import PerTurn

duration_aware = jax.jit(advantages.duration_aware, static_argnames="cap")
uncertain_turns = jax.jit(advantages.uncertain_turns, static_argnames="quantile")
live_group_scale = jax.jit(advantages.live_group_scale)
per_rollout_mean = jax.jit(advantages.per_rollout_mean)
VECTORS = recorded.arrays("turn_credit")


def test_worked_weights_of_durations():
    duration, advantage = np.float32([[1, 1, 1, 1, 16]]), np.float32([[0.1] * 4 + [0.6]])
    mask = np.ones((1, 5), bool)
    weight = duration_aware(np.ones((1, 5), np.float32), mask, duration)
    np.testing.assert_allclose(np.asarray(weight)[0], VECTORS["dag_weights"], atol=1e-6)
    ours = duration_aware(advantage, mask, duration)
    np.testing.assert_allclose(np.asarray(ours)[0], VECTORS["dag_weighted_adv"], atol=1e-6)
    capped = duration_aware(advantage, mask, duration, cap=2.0)
    np.testing.assert_allclose(np.asarray(capped)[0, 4], 1.2, rtol=1e-6)


def test_weights_take_back_what_arrivals_favour():
    # Two actions of probability 1/2 that take 1 and 10: in a fixed time 10 of 11 arrivals are of
    # the first.
    count = 110 * VECTORS["dag_async_freq"]
    duration = np.repeat([1.0, 10.0], count.round().astype(int))[None]
    weight = np.asarray(
        duration_aware(np.ones_like(duration), np.ones(duration.shape, bool), duration)
    )
    share = [weight[duration == d].sum() / weight.sum() for d in (1.0, 10.0)]
    np.testing.assert_allclose(share, VECTORS["dag_corrected"], rtol=1e-5)


def test_equal_durations_change_nothing_and_padding_is_not_read():
    rng = np.random.default_rng(0)
    mask = rng.random((4, 3)) < 0.7
    advantage = np.where(mask, rng.normal(size=(4, 3)), np.nan).astype(np.float32)
    equal = np.where(mask, 3.0, np.nan)
    # Without jit, which may hide that a NaN is read; so do the tests below of arrays with NaN.
    ours = advantages.duration_aware(advantage, mask, equal)
    np.testing.assert_allclose(ours, np.where(mask, advantage, 0), rtol=1e-6)
    none = duration_aware(advantage, mask, np.zeros((4, 3)))
    np.testing.assert_allclose(none, np.where(mask, advantage, 0), rtol=1e-6)


def test_rollouts_weigh_the_same():
    # Two calls of the first rollout, of 2 and 3 tokens, and one call of the second, of 1.
    mask = np.array([[1, 1, 0], [1, 1, 1], [1, 0, 0]], bool)
    advantage = np.where(mask, np.float32([[1], [1], [-2]]), np.nan)
    turn = np.where(mask, 0, -1)
    ours = advantages.per_rollout_mean(
        advantage, mask, np.arange(3), turn, episode=np.array([7, 7, 9])
    )
    np.testing.assert_allclose(ours, VECTORS["agl_norm_adv"], atol=1e-6)
    sums = np.asarray(ours).sum(1)
    np.testing.assert_allclose([sums[:2].sum(), sums[2]], [1 / 3, -2 / 3], rtol=1e-6)
    # The same from advantages of turns; an empty row does not count.
    padded = np.pad(mask, ((0, 1), (0, 0)))
    by_turn = per_rollout_mean(
        PerTurn(np.float32([[1, 0], [1, 0], [-2, 0]])),
        padded,
        np.array([0, 1, 2, 0]),
        np.pad(turn, ((0, 1), (0, 0)), constant_values=-1),
        episode=np.array([7, 7, 9]),
    )
    np.testing.assert_allclose(np.asarray(by_turn)[:3], VECTORS["agl_norm_adv"], atol=1e-6)


def test_two_live_groups_of_eight_count_fourfold():
    reward = np.zeros((16, 2), np.float32)
    reward[[0, 2], 0] = 1.0
    mask, group = np.ones((16, 2), bool), np.repeat(np.arange(8), 2) * 3
    advantage = np.asarray(jax.jit(advantages.grpo)(reward, mask, group))
    ours = live_group_scale(advantage, mask, reward, group)
    np.testing.assert_allclose(ours, 4 * advantage, rtol=1e-6)
    # None alive, or all: nothing changes. Rows have their own shape.
    ones = np.ones((3, 5), np.float32)
    for x in (reward * 0, np.tile([[1.0, 0], [0, 0]], (8, 1))):
        np.testing.assert_array_equal(live_group_scale(ones, mask, x, group), ones)


def test_certain_turns_are_not_learnt_from():
    # 0.2 of 0.1, 0.2, 0.3, 0.5, 0.9 is 0.18: the first is left out; another group has its own.
    entropy = np.float32([[0.1, 0.5, 0.3, np.nan], [0.9, 0.2, np.nan, np.nan], [0.01, 0.02, 9, 9]])
    mask = np.array([[1, 1, 1, 0], [1, 1, 0, 0], [1, 1, 0, 0]], bool)
    ours = advantages.uncertain_turns(np.ones((3, 4)), mask, np.array([4, 4, 2]), entropy)
    np.testing.assert_array_equal(ours, [[0, 1, 1, 0], [1, 1, 0, 0], [0, 1, 0, 0]])


@pytest.mark.parametrize("quantile", [0.0, 0.2, 0.5, 0.9])
def test_quantiles_are_numpys(quantile):
    rng = np.random.default_rng(1)
    mask, group = rng.random((9, 5)) < 0.7, rng.integers(0, 3, 9)
    entropy, advantage = rng.random((2, 9, 5)).astype(np.float32)
    ours = uncertain_turns(advantage, mask, group, entropy, quantile=quantile)
    expected = np.zeros((9, 5), np.float32)
    for g in range(3):
        own = mask & (group == g)[:, None]
        bound = np.quantile(entropy[own], quantile, method="linear")
        expected += np.where(own & (entropy >= bound - 1e-7), advantage, 0)
    np.testing.assert_allclose(ours, expected, rtol=1e-6)


def test_equal_entropies_are_kept_or_left_out_together():
    """Their quantile is the value itself, whatever the rounding between two of them."""
    entropy = np.float32([[0.1] * 4, [-0.0, 0.0, 0.0, 1.0]])
    mask, group = np.ones((2, 4), bool), np.array([0, 1])
    for quantile in (0.2, 0.3, 0.8):
        ours = uncertain_turns(np.ones((2, 4), np.float32), mask, group, entropy, quantile=quantile)
        np.testing.assert_array_equal(np.asarray(ours)[0], 1)
    np.testing.assert_array_equal(np.asarray(ours)[1], [0, 0, 0, 1])


def test_advantages_of_positions_stay_where_no_turn_is():
    """A summary is written between turns: what it was credited with is its own."""
    advantage, written = np.float32([[1, 2, 3]]), np.array([[True, True, False]])
    turn = np.array([[0, -1, 1]])
    ours = over_positions("it", advantage, written, np.zeros(1, int), turn)
    np.testing.assert_array_equal(ours, [[1, 2, 0]])
    # One of turns has none to give there.
    of_turns = over_positions("it", PerTurn(np.float32([[5, 7]])), written, np.zeros(1, int), turn)
    np.testing.assert_array_equal(of_turns, [[5, 0, 0]])
