"""Planners and workers: MATPO and M-GRPO.

selfplay.npz, `matpo`: mzf666/MATPO 3c41d62, executed.
"""

import jax
import numpy as np
import pytest
import recorded
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl import advantages as library

VECTORS = recorded.arrays("selfplay")
CASES = sorted({k.split("_")[1] for k in VECTORS.files if k.startswith("matpo_")})
grpo = jax.jit(library.grpo, static_argnames="singleton")
matpo = jax.jit(library.matpo, static_argnames=("normalize", "singleton"))
m_grpo = jax.jit(library.m_grpo, static_argnames=("normalize", "singleton"))


@pytest.mark.parametrize("number", CASES)
def test_reference_matpo(number):
    """Positions of a row as turns: the reference's planners; its workers, and what they should be.

    The reference gives a worker the planner's row as it is masked, so that of the worker's own
    positions only those are learnt from where the planner wrote, too.
    """
    data = {
        k.split("_", 2)[2]: VECTORS[k] for k in VECTORS.files if k.startswith(f"matpo_{number}_")
    }
    planners, parent = len(data["query"]), data["worker_parent"]
    mask = np.concatenate([data["planner_mask"], data["worker_mask"]]) > 0
    reward = np.full(mask.shape, 99, np.float32)  # what workers earned is not read
    reward[:planners] = 0
    reward[np.arange(planners), mask[:planners].argmax(1)] = data["token_rewards"].sum(1)
    ours = np.asarray(
        matpo(
            reward,
            mask,
            np.concatenate([data["query"], np.full(len(parent), -1)]),
            np.concatenate([np.full(planners, -1), parent]),
            normalize="std" if data["norm_by_std"] else "mean",
            singleton="raw",
        )
    )
    np.testing.assert_allclose(ours[:planners], data["adv_planner"], atol=2e-6)
    workers, both = mask[planners:], mask[planners:] & mask[parent]
    released = np.where(workers, data["adv_worker"], 0)
    np.testing.assert_allclose(np.where(both, ours[planners:], 0), released, atol=2e-6)
    scalar = np.array([row[m][0] for row, m in zip(ours, mask, strict=True)])
    np.testing.assert_array_equal(ours[planners:], np.where(workers, scalar[parent][:, None], 0))
    lost = workers & ~mask[parent] & (scalar[parent] != 0)[:, None]
    assert lost.any() and np.all(released[lost] == 0) and np.all(ours[planners:][lost] != 0)


def test_matpo_worked_numbers():
    # Planners earn 3 and 1: mean 2. The first has two workers, one of which has one of its own; the
    # last stream's planner never acted.
    reward = np.float32([[1, 2], [1, 9], [5, 5], [9, 9], [9, 9], [4, 4], [9, 9]])
    mask = np.array([[1, 1], [1, 0], [1, 0], [0, 1], [1, 1], [0, 0], [1, 1]], bool)
    group = np.array([0, 0, 8, 8, 8, 0, 8])
    parent = np.array([-1, -1, 0, 0, 3, -1, 5])
    ours = matpo(reward, mask, group, parent, normalize="mean")
    np.testing.assert_allclose(
        ours, [[1, 1], [-1, 0], [1, 0], [0, 1], [1, 1], [0, 0], [0, 0]], atol=1e-6
    )


@st.composite
def batches(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    mask = rng.random((10, 4)) < 0.6
    parent = np.where(np.arange(10) < 6, -1, rng.integers(0, 6, 10))
    return {
        "reward": np.where(mask, rng.choice([0.0, 1.0, -0.1], (10, 4)), 0).astype(np.float32),
        "mask": mask,
        "group": rng.integers(0, 2, 10),
        "parent": parent,
        "role": (parent >= 0).astype(int),
    }


@settings(max_examples=20, deadline=None)
@given(batch=batches(), singleton=st.sampled_from(["zero", "raw"]))
def test_matpo_relations(batch, singleton):
    role = batch.pop("role")
    ours = np.asarray(matpo(**batch, singleton=singleton))
    planners = role == 0
    # Planners alone: GRPO, whatever their workers did.
    plain = {n: v[planners] for n, v in batch.items() if n != "parent"}
    np.testing.assert_allclose(ours[planners], grpo(**plain, singleton=singleton), atol=1e-5)
    bad = batch | {
        "reward": np.where(batch["mask"] & planners[:, None], batch["reward"], np.nan).astype("f4")
    }
    np.testing.assert_array_equal(matpo(**bad, singleton=singleton), ours)


@settings(max_examples=20, deadline=None)
@given(batch=batches())
def test_m_grpo_is_grpo_of_each_agent(batch):
    batch.pop("parent")
    ours = np.asarray(m_grpo(**batch))
    for role in (0, 1):
        one = batch["role"] == role
        plain = {n: v[one] for n, v in batch.items() if n != "role"}
        np.testing.assert_allclose(ours[one], grpo(**plain), atol=1e-5)


def test_m_grpo_worked_numbers():
    # One query, two rollouts that earn 1 and 0; sub-agents earn 1, 1, 0 in three calls.
    reward = np.float32([[1], [0], [1], [1], [0]])
    group, role = np.zeros(5, int), np.array([0, 0, 1, 1, 1])
    ours = np.asarray(m_grpo(reward, np.ones((5, 1), bool), group, role, normalize="mean"))
    np.testing.assert_allclose(ours[:, 0], [1 / 2, -1 / 2, 1 / 3, 1 / 3, -2 / 3], atol=1e-6)


def copies_of(counts, target, seed=0):
    """`aligned` of groups with these numbers of sub-agents and a main agent that called all."""
    group = np.repeat(np.arange(len(counts)), np.array(counts) + 1)
    first = np.cumsum([0, *(n + 1 for n in counts[:-1])])
    parent = np.repeat(first, np.array(counts) + 1)
    parent[first] = -1
    order = np.random.default_rng(seed).permutation(len(group))
    back = np.argsort(order)
    parent = np.where(parent < 0, -1, back[parent])[order]
    mask = np.ones((len(group), 2), bool)
    copies = jax.jit(library.aligned, static_argnames="target")(
        jax.random.key(seed), mask, group[order], parent, target=target
    )
    return np.asarray(copies)[back], group, parent[back]


def test_every_query_has_as_many_sub_trajectories():
    """Six with a target of four drop two, three repeat one, two repeat both, none stay none."""
    seen = set()
    for seed in range(8):
        copies, group, parent = copies_of((6, 3, 0, 2, 4), 4, seed)
        sub = parent >= 0
        assert (copies[~sub] == 1).all()
        told = [sorted(copies[sub & (group == g)].tolist()) for g in range(5)]
        assert told == [[0, 0, 1, 1, 1, 1], [1, 1, 2], [], [2, 2], [1, 1, 1, 1]]
        seen.add(tuple(copies[sub & (group == 0)].tolist()))
    # Which ones is random.
    assert len(seen) > 3


def test_workers_that_did_not_act_are_not_counted():
    mask = np.array([[True], [True], [False], [True]])
    copies = library.aligned(
        jax.random.key(0), mask, np.zeros(4, int), np.array([-1, 0, 0, 0]), target=3
    )
    assert copies[0] == 1 and copies[2] == 0 and sorted(copies[np.array([1, 3])].tolist()) == [1, 2]
    doubled = library.as_often(np.ones((4, 1), np.float32), mask, copies[:, None] * 1.0)
    np.testing.assert_array_equal(doubled[:, 0], np.where(mask[:, 0], copies, 0))
