"""Penalties, and what potential-based shaping leaves as it was."""

import functools

import jax
import numpy as np
import pytest
import recorded

from agentrl import rewards
from agentrl.rewards import at_end, invalid_action_penalty, step_penalty


@jax.jit
def shaping(reward, mask, terminated, potential, final, gamma, truncated=None):
    return rewards.potential_shaping(
        reward, potential, mask, terminated, final, gamma=gamma, truncated=truncated
    )


discounted_return = jax.jit(rewards.discounted_return)


def streams(seed=0, n=24, t=8):
    """Random streams with gaps; half of them terminate at their last acted turn."""
    rng = np.random.default_rng(seed)
    mask = rng.random((n, t)) < 0.7
    mask[:, 0] = True
    last = t - 1 - np.argmax(mask[:, ::-1], axis=1)
    ends = np.arange(n) % 2 == 0
    terminated = (np.arange(t) == last[:, None]) & ends[:, None]
    reward, potential = rng.normal(size=(2, n, t)).astype(np.float32)
    return reward, mask, terminated, potential, rng.normal(size=n).astype(np.float32), ends


def test_invalid_action_penalty():
    valid = np.array([[True, False, False], [False, True, True]])
    mask = np.array([[True, True, False], [True, True, True]])
    penalty = invalid_action_penalty(valid, mask, coefficient=0.1)
    np.testing.assert_array_equal(penalty, np.float32([[0, 0.1, 0], [0.1, 0, 0]]))
    assert penalty.dtype == np.float32


def test_step_penalty():
    reward = np.float32([[1.0, 0.0, np.nan]])
    mask = np.array([[True, True, False]])
    shaped = step_penalty(reward, mask, amount=0.25)
    np.testing.assert_array_equal(shaped, [[0.75, -0.25, 0]])
    # two turns of it: the return falls by the amount times the number of turns
    assert float(discounted_return(shaped, mask, gamma=1.0)[0, 0]) == 1 - 2 * 0.25


def test_at_end_by_hand():
    # 1 + 2 + 4 = 7, the gap and what follows the last turn count for nothing.
    reward = np.float32([[1.0, 2.0, np.nan, 4.0, 9.0], [5.0, 0.0, 0.0, 0.0, 0.0]])
    mask = np.array([[True, True, False, True, False], [False] * 5])
    np.testing.assert_array_equal(at_end(reward, mask), [[0, 0, 0, 7, 0], [0] * 5])
    half = at_end(reward, mask, share=0.5)
    np.testing.assert_array_equal(half, [[0.5, 1, 0, 2 + 3.5, 0], [0] * 5])
    np.testing.assert_array_equal(at_end(reward, mask, share=0.0), [[1, 2, 0, 4, 0], [0] * 5])


def test_at_end_gives_every_turn_the_whole_return():
    reward, mask, *_ = streams()
    whole = np.where(mask, reward, 0).sum(axis=1, keepdims=True) * mask
    moved = discounted_return(at_end(reward, mask), mask, gamma=1.0)
    np.testing.assert_allclose(moved, whole, atol=1e-5)


def test_worked_numbers_of_shaping():
    # gamma 0.5, potentials 1, 2, (gap), 4; F = 0.5 * 2 - 1, 0.5 * 4 - 2, then the end:
    reward = np.float32([[0.0, 0.0, 9.0, 0.0]])
    mask = np.array([[True, True, False, True]])
    potential = np.float32([[1.0, 2.0, 9.0, 4.0]])
    ended = np.array([[False, False, False, True]])
    args = (reward, mask)
    terminal = shaping(*args, ended, potential, np.float32([6.0]), gamma=0.5)
    np.testing.assert_array_equal(terminal, [[0, 0, 0, -4]])  # 0.5 * 0 - 4
    cut = shaping(*args, np.zeros_like(ended), potential, np.float32([6.0]), gamma=0.5)
    np.testing.assert_array_equal(cut, [[0, 0, 0, -1]])  # 0.5 * 6 - 4


@pytest.mark.parametrize("gamma", [0.0, 0.9, 1.0])
def test_returns_change_by_the_potential_alone(gamma):
    reward, mask, terminated, potential, final, ends = streams()
    shaped = shaping(reward, mask, terminated, potential, final, gamma=gamma)
    change = np.asarray(
        discounted_return(shaped, mask, gamma=gamma) - discounted_return(reward, mask, gamma=gamma)
    )
    # turns left, this one included: the exponent of what lies beyond a cut
    left = np.cumsum(mask[:, ::-1], axis=1)[:, ::-1]
    beyond = np.where(ends, 0, final)[:, None] * gamma**left
    np.testing.assert_allclose(change, np.where(mask, beyond - potential, 0), atol=2e-6)


def test_optimal_actions_stay_optimal_and_advantages_the_same():
    # All states and actions of a random finite task: Q'(s, a) = Q(s, a) - phi(s).
    rng = np.random.default_rng(1)
    states, actions, gamma = 6, 3, 0.9
    chance = rng.dirichlet(np.ones(states), size=(states, actions))
    reward = rng.normal(size=(states, actions))
    phi = rng.normal(size=states)
    final = np.arange(states) == states - 1
    phi[final] = 0  # the terminal state, as the function fixes it

    def values(r):
        q = np.zeros((states, actions))
        for _ in range(600):
            q = r + gamma * chance @ np.where(final, 0, q.max(1))
        return q

    # expected shaping of (s, a), each transition through the function itself
    s, a, following = (x.ravel() for x in np.indices((states, actions, states)))
    one = np.ones((s.size, 1), bool)
    shaped = shaping(
        reward[s, a][:, None],
        one,
        final[following][:, None],
        phi[s][:, None],
        phi[following],
        gamma=gamma,
    )
    expected = np.sum(np.asarray(shaped).reshape(states, actions, states) * chance, axis=2)
    plain, changed = values(reward), values(expected)
    rows = ~final
    np.testing.assert_allclose(changed[rows], plain[rows] - phi[rows, None], atol=1e-4)
    np.testing.assert_array_equal(changed[rows].argmax(1), plain[rows].argmax(1))


def test_streams_from_one_state_compare_as_before():
    reward, mask, _, potential, final, _ = streams()
    potential[:, 0] = 0.7  # one task, one first state
    last = np.cumsum(mask[:, ::-1], axis=1)[:, ::-1] == 1
    shaped = shaping(reward, mask, last & mask, potential, final, gamma=1.0)
    plain_return = np.where(mask, reward, 0).sum(1)
    shaped_return = np.asarray(shaped).sum(1)
    np.testing.assert_allclose(
        shaped_return - shaped_return.mean(), plain_return - plain_return.mean(), atol=1e-5
    )


def test_a_constant_potential_without_discount_moves_only_the_end():
    reward, mask, terminated, _, _, ends = streams()
    constant = np.full(mask.shape, 3.0, np.float32)
    shaped = shaping(reward, mask, terminated, constant, 3.0, gamma=1.0)
    expected = np.where(mask, reward, 0) - np.where(terminated, 3.0, 0)
    np.testing.assert_allclose(shaped, expected, atol=1e-6)


def test_segments_of_several_episodes():
    # two episodes of two turns in one row: the first cut by a limit, the second terminated
    zeros, mask = np.zeros((1, 4)), np.ones((1, 4), bool)
    potential = np.float32([[1.0, 2.0, 5.0, 6.0]])
    final = np.float32([[np.nan, 10.0, np.nan, np.nan]])
    at = np.arange(4)[None]
    shaped = shaping(zeros, mask, at == 3, potential, final, gamma=1.0, truncated=at == 1)
    np.testing.assert_array_equal(shaped, [[2 - 1, 10 - 2, 6 - 5, 0 - 6]])
    # a turn that both terminates and hits the limit is terminal
    both = shaping(zeros, mask, at == 3, potential, final, gamma=1.0, truncated=at % 2 == 1)
    np.testing.assert_array_equal(both, shaped)


def test_forms_of_what_followed_a_cut():
    reward, mask, terminated, potential, final, _ = streams()
    args = (reward, mask, terminated, potential)
    column = np.broadcast_to(final[:, None], mask.shape)
    np.testing.assert_array_equal(
        shaping(*args, final, gamma=0.9), shaping(*args, column, gamma=0.9)
    )
    np.testing.assert_array_equal(
        shaping(*args, 0.0, gamma=0.9), shaping(*args, np.zeros(24), gamma=0.9)
    )


def test_format_penalty_is_for_broken_replies_only():
    well_formed = np.array([[True, False, False]])
    mask = np.array([[True, True, False]])
    np.testing.assert_allclose(
        rewards.format_penalty(well_formed, mask, coefficient=0.1), [[0.0, 0.1, 0.0]]
    )


def test_length_penalty_rises_over_the_buffer():
    """limit 10, buffer 4: nothing up to 6 tokens, half at 8, all of it from 10 on."""
    cost = np.array([[3.0, 6.0, 8.0, 10.0, 12.0, 12.0]])
    mask = np.array([[True] * 5 + [False]])
    penalty = rewards.length_penalty(cost, mask, limit=10, buffer=4, coefficient=0.5)
    np.testing.assert_allclose(penalty, [[0, 0, 0.25, 0.5, 0.5, 0]])


def test_gated_accumulation_worked_example():
    """Format .1 each of four turns, tool .2, 0, .2, .2, outcome 0 or 1 (turn_credit.npz, `gra`)."""
    data = recorded.arrays("turn_credit")
    levels = np.stack([[0.1] * 4, [0.2, 0, 0.2, 0.2], [0, 0, 0, 0]], axis=-1)[None]
    mask, none = np.ones((1, 4), bool), np.zeros((1, 4), np.float32)
    options = {"thresholds": (0.0, 0.5)}
    failed = rewards.gated_accumulation(none, mask, levels, **options)
    np.testing.assert_allclose(failed.sum(), data["gra_fail_total"], atol=1e-6)
    # Without gates.
    open_ = rewards.gated_accumulation(none, mask, levels, thresholds=(-1.0, -1.0))
    np.testing.assert_allclose(open_.sum(), data["gra_fail_DRA_total"], atol=1e-6)
    levels[0, 3, 2] = 1
    passed = rewards.gated_accumulation(none, mask, levels, **options)
    np.testing.assert_allclose(passed.sum(), data["gra_pass_total"], atol=1e-6)
    np.testing.assert_allclose(passed[0], data["gra_pass_levels"].sum(0), atol=1e-6)
    # Without tool reward the format's is gated off, too; the reward itself never is.
    levels[0, :, 1] = 0
    nested = rewards.gated_accumulation(none + 0.5, mask, levels, **options)
    np.testing.assert_allclose(nested, [[0.5, 0.5, 0.5, 1.5]])
    # With a threshold of its own the reward is the level above: 2 of it opens what 2.5 closes.
    gated = functools.partial(rewards.gated_accumulation, none + 0.5, mask, levels)
    np.testing.assert_allclose(gated(thresholds=(-1.0, 0.5, 1.5)), [[0.6, 0.6, 0.6, 1.6]])
    np.testing.assert_allclose(gated(thresholds=(-1.0, 0.5, 2.5)), [[0.5] * 4])
    # A threshold is to be exceeded, and turns that did not happen are not read.
    levels[0, 3] = np.nan
    cut = mask & (np.arange(4) < 3)
    strict = rewards.gated_accumulation(none, cut, levels, thresholds=(0.0, 0.0))
    np.testing.assert_array_equal(strict, 0)
    with pytest.raises(ValueError, match="1 thresholds for 3 reward levels; expected 2"):
        rewards.gated_accumulation(none, mask, levels, thresholds=(0.0,))


def test_persuasion_is_added_to_the_reward():
    reward, mask = np.float32([[1.0, 2.0, np.nan]]), np.array([[True, True, False]])
    ours = rewards.persuasion_reward(reward, mask, np.float32([[0.5, -1, 9]]), coefficient=2.0)
    np.testing.assert_array_equal(ours, [[2, 0, 0]])


def test_ranges_are_checked():
    reward, mask = np.zeros((1, 2), np.float32), np.ones((1, 2), bool)
    with pytest.raises(ValueError, match="gamma=1.5: expected at least 0 and at most 1"):
        rewards.discounted_return(reward, mask, gamma=1.5)
    with pytest.raises(ValueError, match="discounted_return: mask is int64"):
        rewards.discounted_return(reward, mask.astype(int), gamma=1.0)


def test_rewards_are_scaled_and_clipped():
    reward, mask = np.float32([[1, -3, 9]]), np.array([[1, 1, 0]], bool)
    scale = np.full((1, 3), 0.5, np.float32)
    np.testing.assert_allclose(rewards.scaled_reward(reward, mask, scale), [[0.5, -1.5, 0]])
    np.testing.assert_allclose(rewards.scaled_reward(reward, mask, scale, clip=1.0), [[0.5, -1, 0]])


def test_calls_that_succeed_are_paid_up_to_a_number():
    reward, mask = np.float32([[0, 1, 7, 0]]), np.array([[1, 1, 0, 1]], bool)
    valid, formed = np.array([[1, 0, 1, 0]], bool), np.array([[1, 1, 1, 0]], bool)
    args = reward, mask, valid, formed
    ours = rewards.tool_use_reward(*args)
    np.testing.assert_allclose(ours, [[0, 1, 0, 0.5 * 2 / 3 + 0.5 / 3]], rtol=1e-6)
    capped = rewards.tool_use_reward(*args, format_weight=0.0, most_calls=1.0)
    np.testing.assert_allclose(capped, [[0, 1, 0, 0.5 / 9]], rtol=1e-6)
    none = rewards.tool_use_reward(*args, format_weight=0.0, tool_weight=0.0)
    np.testing.assert_allclose(none, np.where(mask, reward, 0))


def test_steerable_reward_of_the_paper():
    """6 useful and 2 redundant searches, 3 useful and 1 redundant visits; nothing redundant, far
    more than is paid for; nothing but 8 redundant ones of each; and a reply of a bad format."""
    calls = np.float32([[6, 2, 3, 1], [9, 0, 20, 0], [0, 8, 0, 8], [6, 2, 3, 1]])
    lookups = np.zeros((4, 3, 4), np.float32)
    lookups[:, 0], lookups[:, 1] = calls, 0
    lookups[:, 2] = np.nan
    mask = np.array([[1, 1, 0]] * 4, bool)
    formed = np.array([[1, 1, 0]] * 3 + [[1, 0, 1]], bool)
    wrong, right = np.zeros((2, 4, 3), np.float32)
    right[:, 0] = 1.0
    paid = rewards.steerable_reward(wrong, mask, lookups, well_formed=formed)
    np.testing.assert_allclose(paid[:, 1], [0.225, 0.5, -0.2, 0.125], atol=1e-6)
    paid = rewards.steerable_reward(right, mask, lookups, well_formed=formed)
    np.testing.assert_allclose(paid[:, 1], [0.85, 1.1, 0.6, 0.75], atol=1e-6)
    assert not np.any(np.asarray(paid)[:, [0, 2]])
    # Half a reward is not a right answer, and policies over arrays have no format.
    plain = rewards.steerable_reward(right / 2, mask, lookups)
    np.testing.assert_allclose(plain[:, 1], [0.225, 0.5, -0.2, 0.225], atol=1e-6)
