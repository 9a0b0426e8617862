"""Dr. MAS and the baselines of its repository.

selfplay.npz, `drmas`: langfengQ/DrMAS 19c632b, executed; a row is one call of one agent.
"""

import jax
import numpy as np
import pytest
import recorded
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl import advantages as library

VECTORS = recorded.arrays("selfplay")
CASES = sorted({k.split("_")[1] for k in VECTORS.files if k.startswith("drmas_")})
dr_mas = jax.jit(
    library.dr_mas,
    static_argnames=("statistics", "normalize", "leave_one_out", "whitened", "singleton"),
)
grpo = jax.jit(library.grpo, static_argnames="statistics")
rloo = jax.jit(library.rloo, static_argnames="statistics")
# Streams and turns that hold every case: one shape, so that one compilation serves.
LARGEST = (18, 7)
REFERENCES = {
    "agent_std1": {},
    "agent_std0": {"normalize": "mean"},
    "agent_rloo": {"normalize": "mean", "leave_one_out": True},
    "agent_rfpp": {"normalize": "mean", "whitened": True},
    "global_std1": {"statistics": "episode_means"},
    "global_std0": {"statistics": "episode_means", "normalize": "mean"},
    "global_rloo": {"statistics": "first_turns", "normalize": "mean", "leave_one_out": True},
    "global_rfpp": {"statistics": "first_turns", "normalize": "mean", "whitened": True},
}


def as_streams(number):
    """(streams' arrays, where each row is in them, token mask): a stream an agent and trajectory.

    A turn is the row's place in its trajectory. The team's reward, on each stream's first turn, is
    the trajectory's highest score; what a row is short of it is the row's penalty.
    """
    data = {
        k.split("_", 2)[2]: VECTORS[k] for k in VECTORS.files if k.startswith(f"drmas_{number}_")
    }
    score, tokens = data["token_rewards"].sum(1), data["mask"].sum(1)
    names = sorted(set(zip(data["traj"], data["agent"], strict=True)))
    turn = [int(np.sum(data["traj"][:i] == t)) for i, t in enumerate(data["traj"])]
    stream = [names.index(name) for name in zip(data["traj"], data["agent"], strict=True)]
    at = np.array(stream), np.array(turn)
    # Poison wherever no row is, also in streams that are nobody's.
    reward, penalty, cost = (np.full(LARGEST, 77, np.float32) for _ in range(3))
    mask = np.zeros(LARGEST, bool)
    mask[at], cost[at], reward[at] = True, tokens, 0
    best = np.array([score[data["traj"] == trajectory].max() for trajectory, _ in names])
    reward[np.arange(len(names)), mask[: len(names)].argmax(1)] = best
    penalty[at] = best[at[0]] - score
    nobody = [(9999, 0)] * (LARGEST[0] - len(names))
    trajectory = np.array([trajectory for trajectory, _ in [*names, *nobody]])
    arrays = {
        "reward": reward,
        "mask": mask,
        "group": trajectory // 100,
        "role": np.array([agent for _, agent in [*names, *nobody]]),
        "penalty": penalty,
        "episode": trajectory,
        "cost": cost,
    }
    return data, arrays, at


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("number", CASES)
def test_reference(number, name):
    data, arrays, at = as_streams(number)
    ours = np.asarray(dr_mas(**arrays, singleton="raw", **REFERENCES[name]))
    np.testing.assert_allclose(
        ours[at][:, None] * data["mask"], data["adv_" + name], atol=2e-5, rtol=1e-5
    )
    assert np.all(ours[~arrays["mask"]] == 0)


def test_worked_numbers():
    # A solver is called twice in the first episode and once in the second, a checker once in each;
    # the team earns 1 and 0. Solver rows 1, 1, 0: mean 2/3; checker rows 1, 0: mean 1/2.
    reward = np.float32([[0, 1], [1, 0], [0, 0], [0, 0]])
    mask = np.array([[1, 1], [1, 0], [1, 0], [1, 0]], bool)
    group, role, episode = np.zeros(4, int), np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])
    ours = dr_mas(reward, mask, group, role, normalize="mean")
    third = 1 / 3
    np.testing.assert_allclose(
        ours, [[third, third], [0.5, 0], [-2 * third, 0], [-0.5, 0]], atol=1e-6
    )
    # One baseline for both: two episodes, mean 1/2.
    for statistics in ("episode_means", "first_turns"):
        ours = dr_mas(
            reward, mask, group, role, statistics=statistics, normalize="mean", episode=episode
        )
        np.testing.assert_allclose(ours, [[0.5, 0.5], [0.5, 0], [-0.5, 0], [-0.5, 0]], atol=1e-6)
    # The solver's second call is malformed: 0.9. By means the first episode has 2.9 / 3.
    penalty = np.float32([[0, 0.1], [0, 0], [0, 0], [0, 0]])
    options = {"penalty": penalty, "normalize": "mean", "episode": episode}
    ours = dr_mas(reward, mask, group, role, statistics="episode_means", **options)
    np.testing.assert_allclose(ours[:2], [[2.9 / 6] * 2, [2.9 / 6, 0]], atol=1e-6)
    ours = dr_mas(reward, mask, group, role, statistics="first_turns", **options)
    np.testing.assert_allclose(ours[:2], [[0.5, 0.4], [0.5, 0]], atol=1e-6)


@st.composite
def batches(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = (9, 4)
    mask = rng.random(shape) < 0.6
    group = rng.integers(0, 2, 9)
    return {
        "reward": np.where(mask, rng.choice([0.0, 1.0], shape), 0).astype(np.float32),
        "mask": mask,
        "group": group,
        "role": rng.integers(0, 3, 9),
        "penalty": np.where(rng.random(shape) < 0.2, 0.1, 0).astype(np.float32),
        "episode": 10 * group + rng.integers(0, 3, 9),
        "cost": rng.integers(1, 9, shape).astype(np.float32),
    }


@pytest.mark.parametrize("statistics", ["agent_turns", "episode_means", "first_turns"])
@settings(max_examples=15, deadline=None)
@given(batch=batches(), singleton=st.sampled_from(["zero", "raw"]))
def test_equals_plain_loops(statistics, batch, singleton):
    ours = np.asarray(dr_mas(**batch, statistics=statistics, singleton=singleton))
    mask, places = batch["mask"], np.argwhere(batch["mask"].T)[:, ::-1]
    total = np.where(mask, batch["reward"], 0).sum(1)
    score = {(i, t): total[i] - batch["penalty"][i, t] for i, t in places}
    expected = np.zeros(mask.shape)
    for i, t in places:
        mates = [(j, u) for j, u in places if batch["group"][j] == batch["group"][i]]
        episodes = {}  # rows of each episode of the group, in the order of play
        for j, u in mates:
            episodes.setdefault(batch["episode"][j], []).append(score[j, u])
        own = score[i, t]
        if statistics == "agent_turns":
            members = [score[j, u] for j, u in mates if batch["role"][j] == batch["role"][i]]
        elif statistics == "episode_means":
            members = [np.mean(values) for values in episodes.values()]
            own = np.mean(episodes[batch["episode"][i]])
        else:
            members = [values[0] for values in episodes.values()]
        if len(members) == 1:
            expected[i, t] = own if singleton == "raw" else 0
        elif np.ptp(members) > 1e-5:
            expected[i, t] = (own - np.mean(members)) / (np.std(members, ddof=1) + 1e-6)
    np.testing.assert_allclose(ours, expected, atol=2e-4, rtol=1e-3)


@settings(max_examples=15, deadline=None)
@given(batch=batches())
def test_relations(batch):
    ours = np.asarray(dr_mas(**batch))
    # Agents are groups, and rows are turns: GRPO with turn statistics over joint names.
    joint = {n: batch[n] for n in ("reward", "mask", "penalty")}
    joint["group"] = batch["group"] * 3 + batch["role"]
    np.testing.assert_allclose(ours, grpo(**joint, statistics="turn"), atol=1e-5)
    left_out = dr_mas(**batch, normalize="mean", leave_one_out=True)
    np.testing.assert_allclose(left_out, rloo(**joint, statistics="turn"), atol=1e-5)
    # One role and one turn: GRPO. One episode a stream: so is the mean over an episode's rows.
    one = {n: v[:, :1] if v.ndim == 2 else v for n, v in batch.items()} | {"role": np.zeros(9, int)}
    plain = {n: one[n] for n in ("reward", "mask", "group")}
    one["penalty"] = np.zeros((9, 1), np.float32)
    np.testing.assert_allclose(dr_mas(**one), grpo(**plain), atol=1e-5)
    alone = one | {"episode": np.arange(9)}
    for statistics in ("episode_means", "first_turns"):
        np.testing.assert_allclose(dr_mas(**alone, statistics=statistics), grpo(**plain), atol=1e-5)


def test_one_baseline_for_all_agents_has_the_second_moments_it_predicts():
    rng = np.random.default_rng(3)
    n = 600
    role = np.arange(n) % 2
    # Two agents of one group: means 0 and 2, deviations 0.5 and 1.5, one row each.
    reward = np.where(role == 0, rng.normal(0, 0.5, n), rng.normal(2, 1.5, n))[:, None]
    arrays = (np.float32(reward), np.ones((n, 1), bool), np.zeros(n, int), role)
    each = [reward[role == k] for k in (0, 1)]
    predicted = [(r.var() + (r.mean() - reward.mean()) ** 2) / reward.var() for r in each]
    given = np.asarray(dr_mas(*arrays, statistics="all_turns"))
    measured = [np.mean(given[role == k] ** 2) for k in (0, 1)]
    np.testing.assert_allclose(measured, predicted, rtol=0.01)
    assert measured[0] < 1 < measured[1] and np.mean(measured) == pytest.approx(1, rel=0.01)
    own = np.asarray(dr_mas(*arrays))
    np.testing.assert_allclose([np.mean(own[role == k] ** 2) for k in (0, 1)], 1, rtol=0.01)
