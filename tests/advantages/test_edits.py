"""HRPO: the worked numbers (turn_credit.npz, `mashost`, reconstructed), loops and relations."""

import jax
import numpy as np
import pytest
import recorded

from agentrl import advantages

VECTORS = recorded.arrays("turn_credit")
grpo = jax.jit(advantages.grpo)
hrpo = jax.jit(advantages.hrpo, static_argnames=("centre", "normalize"))


def test_worked_numbers():
    """The reconstruction divides by the deviation with ddof 0: sqrt(2 / 3) for three streams."""
    reward = np.zeros((3, 3), np.float32)
    reward[:, -1] = [1, 0, 1]
    mask, group = np.ones((3, 3), bool), np.zeros(3, int)
    edits = np.zeros((3, 3), np.float32)
    edits[0] = [0.1, 0.0, -0.2]
    whole = np.asarray(hrpo(reward, mask, group, edits, edit_weight=0.0))
    ours = np.asarray(hrpo(reward, mask, group, edits, edit_weight=1.0, centre=False))
    group_part = VECTORS["mashost_A_group"]
    np.testing.assert_allclose(whole[:, 0] * np.sqrt(3 / 2), group_part, atol=1e-5)
    # What the edits add is not divided.
    added = VECTORS["mashost_A_traj0"] - group_part[0]
    np.testing.assert_allclose(ours - whole, [added, np.zeros(3), np.zeros(3)], atol=1e-5)


def batch(seed):
    rng = np.random.default_rng(seed)
    mask = rng.random((12, 5)) < 0.7
    reward = np.where(mask, rng.normal(size=(12, 5)), np.nan).astype(np.float32)
    edits = np.where(mask, rng.normal(size=(12, 5)), np.nan).astype(np.float32)
    return reward, mask, rng.integers(0, 3, 12), edits, rng.integers(0, 2, 12)


@pytest.mark.parametrize("seed", range(3))
def test_without_a_weight_it_is_grpo(seed):
    reward, mask, group, edits, role = batch(seed)
    np.testing.assert_array_equal(
        hrpo(reward, mask, group, edits, edit_weight=0.0, role=role),
        grpo(reward, mask, group, role=role),
    )


@pytest.mark.parametrize("seed", range(3))
def test_equals_plain_loops(seed):
    reward, mask, group, edits, role = batch(seed)
    whole = np.asarray(grpo(reward, mask, group, role=role))
    expected = np.zeros(mask.shape)
    for i, t in np.argwhere(mask):
        mates = mask & (group == group[i])[:, None] & (role == role[i])[:, None]
        expected[i, t] = whole[i, t] + 0.5 * (edits[i, t] - edits[mates].mean())
    np.testing.assert_allclose(hrpo(reward, mask, group, edits, role=role), expected, atol=1e-5)


def test_a_shift_of_the_edits_changes_nothing_if_centred():
    reward, mask, group, edits, _ = batch(0)
    shifted = hrpo(reward, mask, group, edits + 3)
    np.testing.assert_allclose(shifted, hrpo(reward, mask, group, edits), atol=1e-5)
