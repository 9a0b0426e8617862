"""MatchTIR's two levels and UserRL's assignments: recorded values, loops, and reductions."""

import jax
import numpy as np
import pytest
import recorded
from programs import fetched

from agentrl import advantages

VECTORS = recorded.arrays("turn_credit")
grpo = jax.jit(advantages.grpo, static_argnames="singleton")
dual_level = jax.jit(advantages.dual_level)
user_rl = fetched(advantages.user_rl, static_argnames=("credit", "score", "unrewarded", "decimals"))


def streams(seed):
    rng = np.random.default_rng(seed)
    mask = rng.random((12, 5)) < 0.7
    reward = np.where(mask, rng.random((12, 5)), np.nan)
    return reward.astype(np.float32), mask, rng.integers(0, 3, 12)


def turns_of(tokens, mask):
    """(values at the last token of each turn, bool) of rows whose turns are runs of the mask."""
    ends = np.diff(np.pad(mask, ((0, 0), (0, 1))).astype(int), axis=1) == -1
    width = ends.sum(1).max()
    values, there = np.zeros((len(mask), width), np.float32), np.zeros((len(mask), width), bool)
    for row, at in enumerate(ends):
        values[row, : at.sum()], there[row, : at.sum()] = tokens[row, at], True
    return values, there


def test_two_levels_have_matchtirs_values():
    mask = VECTORS["matchtir_in_mask"].astype(bool)
    reward, there = turns_of(VECTORS["matchtir_in_rewards"], mask)
    expected, _ = turns_of(VECTORS["matchtir_adv"], mask)
    ours = dual_level(np.where(there, reward, np.nan), there, np.zeros(3, int))
    np.testing.assert_allclose(ours, expected, atol=2e-5)


@pytest.mark.parametrize("seed", range(2))
def test_two_levels_equal_plain_loops(seed):
    reward, mask, group = streams(seed)
    number = np.cumsum(mask, 1) - 1
    returns, total = np.zeros((12, 5)), np.nansum(np.where(mask, reward, 0), axis=1)
    for i in range(12):
        after = 0.0
        for t in reversed(np.flatnonzero(mask[i])):
            returns[i, t] = after = reward[i, t] + 0.9 * after

    def score(x, others):
        return x if len(others) == 1 else (x - others.mean()) / (others.std(ddof=1) + 1e-6)

    expected, some = np.zeros((12, 5)), mask.any(1)
    for i, t in np.argwhere(mask):
        mates = (group == group[i]) & some
        same = returns[mask & mates[:, None] & (number == number[i, t])]
        expected[i, t] = 0.5 * score(total[i], total[mates]) + 0.5 * score(returns[i, t], same)
    np.testing.assert_allclose(dual_level(reward, mask, group), expected, atol=2e-5)


def test_one_level_alone_is_grpo():
    reward, mask, group = streams(2)
    ours = dual_level(reward, mask, group, turn_weight=0.0)
    expected = grpo(reward, mask, group, singleton="raw")
    np.testing.assert_allclose(ours, expected, atol=1e-6)


@pytest.mark.parametrize("score, theirs", [("mean", "Sum"), ("discounted", "R2G")])
@pytest.mark.parametrize(
    "credit, name",
    [("equalized", "Equalized"), ("return_to_go", "R2G"), ("exponential", "EM")],
)
def test_userrls_six_assignments(credit, name, score, theirs):
    reward = np.float32([[0, 0.5, 1], [0.2, 0, 0], [0, 0, 0]])
    ours = user_rl(
        reward, np.ones((3, 3), bool), np.zeros(3, int), credit=credit, score=score, decimals=4
    )
    # One token of each turn, and one behind it.
    expected = VECTORS[f"userrl_adv_{name}_{theirs}"][:, ::2]
    np.testing.assert_allclose(ours, expected, atol=2e-5)


@pytest.mark.parametrize("credit", ["return_to_go", "exponential"])
def test_credited_turns_have_the_groups_advantage_on_average(credit):
    reward, mask, group = streams(3)
    outcome = np.asarray(user_rl(reward, mask, group, credit="equalized"))
    cost = np.random.default_rng(0).integers(1, 9, mask.shape).astype(np.float32)
    ours = np.asarray(user_rl(reward, mask, group, credit=credit, cost=cost))
    weight = np.where(mask & (ours != 0), cost, 0)
    expected = outcome.sum(1) / np.maximum(mask.sum(1), 1)
    mean = (ours * weight).sum(1) / np.maximum(weight.sum(1), 1)
    np.testing.assert_allclose(mean, expected, atol=2e-5)


def test_an_episode_without_reward_is_learnt_from_on_request():
    reward = np.float32([[0, 1.0], [0, 0]])
    args = reward, np.ones((2, 2), bool), np.zeros(2, int)
    released = user_rl(*args, credit="return_to_go")
    mended = user_rl(*args, credit="return_to_go", unrewarded="equalized")
    assert np.all(released[1] == 0) and np.all(mended[1] < -0.7)
    np.testing.assert_array_equal(released[0], mended[0])


def test_rounding_is_no_reward_and_no_difference():
    mask, group = np.ones((2, 3), bool), np.zeros(2, int)
    # In float32 these add up to 3e-8.
    reward = np.float32([[0.3, -0.1, -0.2], [1, 0, 0]])
    ours = user_rl(reward, mask, group, credit="return_to_go", gamma=0.0)
    np.testing.assert_array_equal(ours[0], 0.0)
    # Equal returns, one summed from large numbers.
    reward = np.float32([[1e6, 0.1, -1e6], [0.1, 0, 0]])
    np.testing.assert_array_equal(user_rl(reward, mask, group, score="mean"), 0.0)


def test_one_turn_is_grpo():
    reward, mask, group = np.float32([[0.3], [0.9], [0.1], [0.4]]), np.ones((4, 1), bool), [0] * 4
    expected = grpo(reward, mask, np.asarray(group))
    for credit in ("equalized", "exponential"):
        ours = user_rl(reward, mask, np.asarray(group), credit=credit, score="mean")
        np.testing.assert_allclose(ours, expected, rtol=1e-5)
