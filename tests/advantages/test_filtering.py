"""Top-variance filtering keeps the groups whose returns spread most."""

import jax
import numpy as np
import pytest
import recorded

from agentrl import advantages

keep = jax.jit(advantages.top_variance, static_argnames="fraction")
dynamic_sampling = jax.jit(advantages.dynamic_sampling)
relevant = jax.jit(advantages.relevant, static_argnames="least")
resample_on_correct = jax.jit(
    advantages.resample_on_correct, static_argnames=("keep", "min_wrong", "min_right")
)


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


def test_one_spread_group_is_what_dynamic_sampling_keeps():
    reward = np.array([[1, 1, 0, 2, 3, 3]], np.float32).T
    mask, group = np.ones((6, 1), bool), np.repeat([0, 1, 2], 2)
    np.testing.assert_array_equal(
        keep(reward, mask, group, fraction=1.0), dynamic_sampling(reward, mask, group)
    )


@pytest.mark.parametrize(
    "fraction, groups, kept", [(0.53, 100, 53), (0.84, 75, 63), (0.59, 100, 59)]
)
def test_the_share_is_not_rounded_by_float32(fraction, groups, kept):
    reward = np.stack([np.zeros(groups), np.arange(1, groups + 1)], 1).reshape(-1, 1)
    group = np.repeat(np.arange(groups), 2)
    ours = keep(reward.astype(np.float32), np.ones((2 * groups, 1), bool), group, fraction=fraction)
    assert int(ours.sum()) == 2 * kept


def test_groups_that_differ_by_rounding_carry_no_signal():
    """As in `grpo`, which gives them 0: 0.6 and the next float32."""
    reward = np.float32([[0.6], [np.nextafter(np.float32(0.6), np.float32(1))], [0], [1]])
    mask, group = np.ones((4, 1), bool), np.array([0, 0, 1, 1])
    ours = dynamic_sampling(reward, mask, group)
    np.testing.assert_array_equal(ours, [False, False, True, True])
    advantage = jax.jit(advantages.grpo)(reward, mask, group)
    np.testing.assert_array_equal(ours, np.asarray(advantage)[:, 0] != 0)


def test_over_turn_masking_worked_numbers():
    """Returns 1, 0, 0*, 0* keep two; 1, 1, 0*, 0* none, though the group differs (* cut)."""
    reward = np.float32([[1], [0], [0], [0], [1], [1], [0], [0]])
    mask, group = np.ones((8, 1), bool), np.repeat([0, 1], 4)
    cut = np.array([[0], [0], [1], [1]] * 2, bool)
    ours = jax.jit(advantages.over_turn_masking)(reward, mask, group, cut)
    np.testing.assert_array_equal(ours, [1, 1, 0, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(advantages.not_truncated(mask, cut), ~cut[:, 0])
    np.testing.assert_array_equal(dynamic_sampling(reward, mask, group), True)
    # A limit behind the mask, and a stream that never acted.
    both = np.zeros((2, 3), bool)
    both[0, :2] = True
    limit = np.array([[0, 0, 1], [1, 1, 1]], bool)
    np.testing.assert_array_equal(advantages.not_truncated(both, limit), [True, False])


def roc_streams(wrong_first=False):
    """The six traces of the worked example, all right, and two wrong ones; turns are tool calls."""
    valid = [[1, 1], [1, 0], [0, 0], [1, 1], [1, 1], [1, 1], [1, 1], [1, 1]]
    well_formed = [[1, 1]] * 4 + [[1, 0], [0, 0], [1, 1], [1, 1]]
    tool = [[1, 1]] * 3 + [[0, 0], [1, 1], [0, 0], [1, 1], [1, 1]]
    reward = np.zeros((8, 2), np.float32)
    reward[:6, 1] = 1
    arrays = {
        "reward": reward,
        "mask": np.ones((8, 2), bool),
        "group": np.zeros(8, int),
        "valid": np.array(valid, bool),
        "well_formed": np.array(well_formed, bool),
        "tool_call": np.array(tool, bool),
    }
    return arrays


def test_resample_on_correct_worked_numbers():
    """Penalties 0, .5, 1, .5, .5, 1.5 of the right ones (rStar2-Agent's own functions)."""
    arrays = roc_streams()
    ours = resample_on_correct(**arrays, keep=4)
    np.testing.assert_array_equal(ours, [1, 1, 0, 0, 0, 0, 1, 1])
    ours = resample_on_correct(**arrays, keep=4, min_wrong=1, min_right=1)
    np.testing.assert_array_equal(ours, [1, 1, 0, 1, 0, 0, 1, 0])
    # Half of each where neither is below its minimum: 6 wrong and 2 right of 8 keep 3 and 1.
    flipped = arrays | {"reward": 1 - arrays["reward"].max(1, keepdims=True) * np.ones((1, 2))}
    ours = resample_on_correct(**flipped, keep=4, min_right=0, min_wrong=0)
    np.testing.assert_array_equal(ours, [1, 1, 1, 0, 0, 0, 1, 0])
    # Equal returns are dropped, whatever the traces look like.
    same = arrays | {"reward": np.ones((8, 2), np.float32)}
    assert not np.any(resample_on_correct(**same, keep=4))


def test_resample_on_correct_equals_plain_loops():
    rng = np.random.default_rng(0)
    for _ in range(40):
        n, keep, least = 24, int(rng.integers(1, 7)), int(rng.integers(0, 3))
        mask = rng.random((n, 3)) < 0.8
        reward = np.where(mask, rng.random((n, 3)) < 0.4, np.nan).astype(np.float32)
        valid, formed = rng.random((2, n, 3)) < 0.7
        group = rng.integers(0, 3, n)
        ours = resample_on_correct(
            reward,
            mask,
            group,
            valid,
            well_formed=formed,
            keep=keep,
            min_wrong=least,
            min_right=least,
        )
        returns = np.where(mask, reward, 0).sum(1)
        turns = np.maximum(mask.sum(1), 1)
        penalty = ((mask & ~valid).sum(1) / turns + (mask & ~formed).sum(1) / turns).astype("f4")
        expected = np.zeros(n, bool)
        for g in range(3):
            members = [i for i in range(n) if group[i] == g and mask[i].any()]
            if len({returns[i] for i in members}) < 2:
                continue
            right = [i for i in members if returns[i] > 0]
            wrong = [i for i in members if returns[i] <= 0]
            z = round(keep * len(wrong) / len(members))
            z = min(least, len(wrong)) if z <= min(least, len(wrong)) else z
            c = keep - z
            if c <= min(least, len(right)):
                c = min(least, len(right))
                z = keep - c
            expected[wrong[: max(z, 0)]] = True
            expected[sorted(right, key=lambda i: (penalty[i], i))[:c]] = True
        np.testing.assert_array_equal(ours, expected)


def test_loop_drops_streams_of_small_advantage():
    reward = np.float32([[1], [0], [0.5], [0], [1], [1], [1]])
    mask, group = np.ones((7, 1), bool), np.array([0, 0, 0, 0, 1, 1, 1])
    vectors = recorded.arrays("turn_credit")
    ours = np.asarray(jax.jit(advantages.rloo)(reward, mask, group))
    np.testing.assert_allclose(ours[:, 0], vectors["loop_adv"], atol=1e-6)
    keep = relevant(reward, mask, group)
    np.testing.assert_array_equal(keep, [True] * 4 + [False] * 3)
    np.testing.assert_array_equal(
        relevant(reward, mask, group, least=0.4), [True, True, False, True] + [False] * 3
    )
