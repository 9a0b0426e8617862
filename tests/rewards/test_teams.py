"""Rewards of planners and of policies that take turns: worked numbers, loops, relations."""

import jax
import numpy as np
import pytest
import recorded

from agentrl import rewards

VECTORS = recorded.arrays("turn_credit")


def test_capability_gain_worked_numbers():
    """turn_credit.npz, `eaglet`: shorter by 4; no gain; and an expert and a novice."""
    planned = np.array([[1.0, 0.6, 0.0], [0.6, 0.6, 0.0], [1.0, 0.4, 0.0]])[:, :2]
    alone = np.array([[0.0, 0.6], [0.6, 0.6], [0.0, 0.2]])
    steps = np.array([[8, 5], [5, 5], [8, 15]]), np.array([[12, 5], [9, 5], [12, 14]])
    gain = rewards.capability_gain(planned, alone, *steps, alpha=0.1)
    np.testing.assert_allclose(gain, VECTORS["eaglet_R"], atol=1e-5)
    bounded = rewards.capability_gain(planned, alone, *steps, alpha=0.1, most=2.0)
    np.testing.assert_allclose(bounded, [1.21, 0, 1.21 + 1 / 1.1], atol=1e-5)


def streams(seed):
    rng = np.random.default_rng(seed)
    mask = rng.random((10, 5)) < 0.7
    mask[3] = False
    reward = np.where(mask, rng.integers(0, 2, (10, 5)) * (rng.random((10, 1)) < 0.5), np.nan)
    return rng, mask, reward.astype(np.float32)


def at_the_end(mask, values):
    out = np.zeros(mask.shape)
    for i in np.flatnonzero(mask.any(axis=1)):
        out[i, np.flatnonzero(mask[i])[-1]] = values[i]
    return out


@pytest.mark.parametrize("seed", range(3))
def test_failures_are_consoled_by_the_variety_of_tools(seed):
    rng, mask, reward = streams(seed)
    used = rng.random((10, 5, 4)) < 0.3
    total = np.where(mask, reward, 0).sum(axis=1)
    variety = (used & mask[..., None]).any(axis=1).mean(axis=1)
    expected = np.where(mask, reward, 0) + at_the_end(mask, np.where(total > 0, 0, 0.1 * variety))
    ours = jax.jit(rewards.consolation)(reward, mask, used)
    np.testing.assert_allclose(ours, expected, atol=1e-6)


def test_consolation_worked_numbers():
    """An F1 of 0 with 2 of 3 and with 1 of 4 tools, an F1 of 0.5, a bad format, and a cut."""
    mask = np.ones((5, 2), bool)
    reward = np.float32([[0, 0], [0, 0], [0, 0.5], [0, 0.5], [0, 0]])
    used = np.zeros((5, 2, 4), bool)
    used[0, :, :2], used[1, :, 3], used[2:, :, 0] = True, True, True
    formed, cut = np.ones((5, 2), bool), np.zeros((5, 2), bool)
    formed[3, 0], cut[4, 1] = False, True
    listed = np.repeat(np.array([[3], [4], [3], [3], [3]]), 2, axis=1)
    ours = rewards.consolation(
        reward, mask, used, tools_listed=listed, well_formed=formed, truncated=cut
    )
    np.testing.assert_allclose(ours[:, 1], [0.2 / 3, 0.025, 0.5, 0, 0], atol=1e-7)
    np.testing.assert_array_equal(ours[:, 0], 0)


def test_the_web_early_costs():
    """HierSearch's table, by the number of the first call of the web among calls of tools."""
    table = [-1, -1, -1, -0.2, -0.15, -0.1, -0.045, -0.03, -0.01, -0.01]
    used = np.zeros((12, 13, 2), bool)
    mask = np.ones((12, 13), bool)
    mask[:, 12], mask[:, 0] = False, False
    used[:, 2:12, 0] = True  # turn 1 uses no tool
    for number in range(10):
        used[number, 2 + number] = [False, True]
        used[number, 11, 1] = True
    used[11, 12] = used[11, 0] = True  # of turns that are none
    reward = np.where(mask, np.float32(1), np.nan)
    ours = rewards.local_first(reward, mask, used, web=(1,))
    np.testing.assert_allclose(ours.sum(axis=1) - 11, [*table, 0, 0], atol=1e-5)
    np.testing.assert_array_equal(ours[:, 1:11], 1)


def test_lengths_worked_numbers():
    """Lengths 100, 300, 200, 400 of which two are right, and a group of equal lengths."""
    reward = np.array([[1], [1], [0], [0], [1], [0]], np.float32)
    cost = np.array([[100], [300], [200], [400], [7], [7]], np.float32)
    group, mask = np.array([5, 5, 5, 5, 2, 2]), np.ones((6, 1), bool)
    bonus = rewards.short_reply_bonus(reward, mask, cost, group) - reward
    np.testing.assert_allclose(bonus[:, 0], [0.5, -1 / 6, 0, -0.5, 0, 0], atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_lengths_equal_plain_loops(seed):
    rng, mask, reward = streams(seed)
    cost = np.where(mask, rng.integers(1, 50, (10, 5)), np.nan).astype(np.float32)
    group = rng.integers(0, 3, 10)
    length, total = (np.where(mask, x, 0).sum(axis=1) for x in (cost, reward))
    bonus = np.zeros(10)
    for i in np.flatnonzero(mask.any(axis=1)):
        mates = length[(group == group[i]) & mask.any(axis=1)]
        if np.ptp(mates) > 0:
            own = 0.5 - (length[i] - mates.min()) / np.ptp(mates)
            bonus[i] = own if total[i] > 0 else min(own, 0)
    expected = np.where(mask, reward, 0) + at_the_end(mask, 2 * bonus)
    ours = jax.jit(rewards.short_reply_bonus)(reward, mask, cost, group, coefficient=2.0)
    np.testing.assert_allclose(ours, expected, atol=1e-5)


def test_thoughts_are_worth_what_they_add():
    """Gains .3, .25, 0 and -.05 of thoughts of 40, 60, 120 and 40 tokens."""
    accuracy, length = np.array([0.2, 0.5, 0.75, 0.75, 0.70]), np.array([40, 60, 120, 40])
    gains = rewards.thought_scores(accuracy, length, decay=0.0, brevity=0.0)
    np.testing.assert_allclose(gains, [0.3, 0.25, 0, -0.05], atol=1e-6)
    np.testing.assert_allclose(100 * gains / length, [0.75, 0.4167, 0, -0.125], atol=1e-4)
    scores = rewards.thought_scores(accuracy, length)
    brevity = 0.1 * (1 - length / 260)
    np.testing.assert_allclose(scores - brevity, [0.3, 0.25, -0.1, -0.15], atol=1e-6)
    with pytest.raises(ValueError, match="one accuracy more than thoughts"):
        rewards.thought_scores(accuracy, accuracy)


def test_errors():
    one = np.ones((2, 3), np.float32)
    with pytest.raises(ValueError, match="capability_gain alpha"):
        rewards.capability_gain(one, one, one, one, alpha=-0.1)


def test_sub_agents_are_paid_for_their_form_and_their_callers_outcome():
    """A main agent that succeeds, its worker that broke the format, and that worker's own."""
    reward = np.float32([[0, 1], [0, 1], [1, 0], [0, 0]])
    mask = np.array([[True, True], [True, True], [True, False], [True, False]])
    well_formed = np.array([[True, True], [True, False], [True, False], [False, True]])
    parent = np.array([-1, 0, 1, -1])
    judgement = np.float32([[9, 9], [0.5, -0.5], [0.8, 9], [9, 9]])
    paid = rewards.delegated_reward(
        reward,
        mask,
        parent,
        format_weight=0.2,
        outcome_weight=0.8,
        sub_format_weight=0.1,
        sub_outcome_weight=0.6,
        judge_weight=0.3,
        well_formed=well_formed,
        judgement=judgement,
    )
    np.testing.assert_allclose(paid, [[0, 1.0], [0, 0.6], [0.1 + 0.6 + 0.24, 0], [0, 0]], rtol=1e-6)


def test_a_judgement_that_is_not_there_is_an_error():
    none = np.zeros((1, 1), np.float32)
    with pytest.raises(ValueError, match="without judgements"):
        rewards.delegated_reward(none, none == 0, np.array([-1]), judge_weight=0.5)
