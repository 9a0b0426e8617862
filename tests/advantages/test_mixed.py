"""MAPO: the worked example (turn_credit.npz, `mapo`, from the formulas), loops and relations."""

import jax
import numpy as np
import pytest
import recorded

from agentrl import advantages

VECTORS = recorded.arrays("turn_credit")
mapo = jax.jit(advantages.mapo, static_argnames="pool")


def test_worked_example():
    reward, mask = VECTORS["mapo_in_r"], VECTORS["mapo_in_mask"].astype(bool)
    reward = np.where(mask, reward, np.nan).astype(np.float32)
    group = np.zeros(4, int)
    for turn_weight, expected in ((1.0, "A_turn"), (0.0, "A_batch"), (0.5, "A_mixed")):
        ours = mapo(reward, mask, group, turn_weight=turn_weight)
        np.testing.assert_allclose(ours, VECTORS["mapo_" + expected], atol=1e-5)


@pytest.mark.parametrize("pool", ["group", "batch"])
@pytest.mark.parametrize("seed", range(3))
def test_equals_plain_loops(seed, pool):
    rng = np.random.default_rng(seed)
    mask = rng.random((12, 5)) < 0.7
    reward = np.where(mask, rng.normal(size=(12, 5)), np.nan).astype(np.float32)
    group = rng.integers(0, 3, 12)
    number = np.cumsum(mask, 1) - 1
    returns = np.zeros((12, 5))
    for i in range(12):
        after = 0.0
        for t in reversed(np.flatnonzero(mask[i])):
            returns[i, t] = after = reward[i, t] + 0.9 * after
    expected = np.zeros((12, 5))
    for i, t in np.argwhere(mask):
        mates = mask & (group == group[i])[:, None]
        same = returns[mates & (number == number[i, t])]
        every = reward[mates if pool == "group" else mask]
        for values, x in ((same, returns[i, t]), (every, reward[i, t])):
            if np.ptp(values) > 1e-6:
                expected[i, t] += 0.5 * (x - values.mean()) / (values.std() + 1e-8)
    ours = mapo(reward, mask, group, gamma=0.9, pool=pool)
    np.testing.assert_allclose(ours, expected, atol=2e-5)
