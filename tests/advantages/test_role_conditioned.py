"""RAE and the spread of one value over a stream's turns.

selfplay.npz: spiral a02d0ed (`rae`: 24 games in sequence) and spiral-rl 0.2.0 (`raebatch`: batches
of 8 games), executed in float64.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import recorded
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl import advantages

VECTORS = recorded.arrays("selfplay")
rae = jax.jit(advantages.rae, static_argnames="order")
spread = jax.jit(advantages.broadcast_to_turns)


def cases(prefix):
    return sorted({"_".join(k.split("_")[:2]) for k in VECTORS.files if k.startswith(prefix + "_")})


@pytest.mark.parametrize("name", cases("rae"))
def test_reference_sequential(name):
    data = {k.removeprefix(name + "_"): VECTORS[k] for k in VECTORS.files if k.startswith(name)}
    games, turns = data["advantage"].shape[0], data["advantage"].shape[2]
    outcome = data["rewards"].reshape(-1) * data["reward_scaling"]
    role, trained = np.tile([0, 1], games), int(data["trained_player"])
    moves = (role == trained) | (trained < 0)
    with jax.enable_x64(True):
        advantage, _ = advantages.rae(
            outcome,
            role,
            np.zeros_like(role),
            jnp.zeros((1, 2)),
            decay=float(data["decay"]),
            order="sequential",
            moves=moves & bool(data["use_role_baseline"]),
        )
        gamma = float(data["gamma"]) if data["use_intermediate_rewards"] else 1.0
        mask = np.arange(turns) < data["n_turns"].reshape(-1, 1)
        ours = advantages.broadcast_to_turns(advantage, mask, gamma=gamma)
    # NaN: the turn does not exist, or was dropped because its advantage is 0, or is the opponent's.
    expected = np.nan_to_num(data["advantage"]).reshape(-1, turns)
    np.testing.assert_allclose(np.where(moves[:, None], ours, 0), expected, atol=1e-12)


@pytest.mark.parametrize("name", cases("rae"))
def test_reference_baselines_game_by_game(name):
    rewards, after = VECTORS[name + "_rewards"], VECTORS[name + "_ema_after"]
    if not VECTORS[name + "_use_role_baseline"]:
        pytest.skip("this case has no baseline")
    trained = int(VECTORS[name + "_trained_player"])
    moves = (np.arange(2) == trained) | (trained < 0)
    baseline = jnp.zeros((1, 2))
    for reward, expected in zip(rewards * VECTORS[name + "_reward_scaling"], after, strict=True):
        _, baseline = rae(
            reward.astype(np.float32),
            np.arange(2),
            np.zeros(2, int),
            baseline,
            decay=float(VECTORS[name + "_decay"]),
            order="sequential",
            moves=moves,
        )
        np.testing.assert_allclose(baseline[0], expected, atol=1e-6)


@pytest.mark.parametrize("name", cases("raebatch"))
def test_reference_batch(name):
    rewards, decay = VECTORS[name + "_rewards"], float(VECTORS[name + "_decay"])
    role = np.tile([0, 1], rewards.shape[1])
    with jax.enable_x64(True):
        baseline = jnp.zeros((1, 2))
        for i, batch in enumerate(rewards):
            advantage, baseline = advantages.rae(
                batch.reshape(-1), role, np.zeros_like(role), baseline, decay=decay
            )
            expected = VECTORS[name + "_advantage"][i].reshape(-1)
            np.testing.assert_allclose(advantage, expected, atol=1e-12)
            np.testing.assert_allclose(baseline[0], VECTORS[name + "_ema_after"][i], atol=1e-12)


def test_worked_numbers():
    # Two tasks, two roles; task 1 role 1 is absent and keeps its 0.5.
    outcome = np.float32([1, -1, 1, 0, 1])
    role, task = np.array([0, 1, 0, 1, 0]), np.array([0, 0, 0, 0, 1])
    baseline = np.float32([[0.2, 0.0], [0.0, 0.5]])
    advantage, after = rae(outcome, role, task, baseline, decay=0.9)
    np.testing.assert_allclose(advantage, [0.8, -1, 0.8, 0, 1], atol=1e-6)
    # 0.9 * 0.2 + 0.1 * 1; 0.9 * 0 - 0.1 * 0.5; 0.1 * 1.
    np.testing.assert_allclose(after, [[0.28, -0.05], [0.1, 0.5]], atol=1e-6)
    advantage, after = rae(outcome, role, task, baseline, decay=0.9, order="sequential")
    # The third stream meets 0.28, the fourth -0.1.
    np.testing.assert_allclose(advantage, [0.8, -1, 0.72, 0.1, 1], atol=1e-6)
    np.testing.assert_allclose(after, [[0.352, -0.09], [0.1, 0.5]], atol=1e-6)


def test_only_streams_that_move_the_baseline_reach_it():
    outcome, role = np.float32([1, 3, np.nan]), np.zeros(3, int)
    moves = np.array([True, False, False])
    for order in ("batch", "sequential"):
        advantage, after = rae(outcome, role, role, jnp.ones((1, 1)), order=order, moves=moves)
        np.testing.assert_allclose(advantage[:2], [0, 2])
        np.testing.assert_allclose(after, [[1]])


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), decay=st.sampled_from([0.0, 0.5, 0.95, 1.0]))
def test_relations(seed, decay):
    rng = np.random.default_rng(seed)
    outcome = rng.normal(size=12).astype(np.float32)
    role, task = rng.integers(0, 2, 12), rng.integers(0, 3, 12)
    zero, start = np.zeros((3, 2), np.float32), rng.normal(size=(3, 2)).astype(np.float32)
    # Baseline 0 and decay 1: the outcome, and nothing moves.
    for order in ("batch", "sequential"):
        advantage, after = rae(outcome, role, task, zero, decay=1.0, order=order)
        np.testing.assert_array_equal(advantage, outcome)
        np.testing.assert_array_equal(after, zero)
    # In a batch the order of the streams is nothing; a shift of outcomes and baselines is neither.
    advantage, after = rae(outcome, role, task, start, decay=decay)
    p = rng.permutation(12)
    permuted, same = rae(outcome[p], role[p], task[p], start, decay=decay)
    np.testing.assert_array_equal(permuted, np.asarray(advantage)[p])
    np.testing.assert_allclose(same, after, atol=1e-6)
    shifted, moved = rae(outcome + 2, role, task, start + 2, decay=decay)
    np.testing.assert_allclose(shifted, advantage, atol=1e-5)
    np.testing.assert_allclose(moved, after + 2, atol=1e-5)
    # Stream by stream is a sequence of batches of one.
    table, singly = start, []
    for i in range(12):
        one, table = rae(outcome[i : i + 1], role[i : i + 1], task[i : i + 1], table, decay=decay)
        singly.append(one[0])
    advantage, after = rae(outcome, role, task, start, decay=decay, order="sequential")
    np.testing.assert_allclose(advantage, singly, atol=1e-5)
    np.testing.assert_allclose(after, table, atol=1e-5)


def test_spread_counts_own_turns_only():
    # Three own turns among the opponent's: 8 * (1/4, 1/2, 1).
    mask = np.array([[1, 0, 1, 0, 1, 0], [0, 1, 0, 0, 0, 0], [0] * 6], bool)
    value = np.float32([8, -1, np.nan])
    np.testing.assert_allclose(
        spread(value, mask, gamma=0.5), [[2, 0, 4, 0, 8, 0], [0, -1, 0, 0, 0, 0], [0] * 6]
    )
    ones = np.where(mask, np.float32([8, -1, 0])[:, None], 0)
    np.testing.assert_array_equal(advantages.broadcast_to_turns(value, mask), ones)
    # gamma 0 leaves the last own turn.
    np.testing.assert_array_equal(spread(value, mask, gamma=0.0)[0], [0, 0, 0, 0, 8, 0])


@pytest.mark.parametrize(
    "options, message",
    [
        ({"order": "stream"}, "order='stream': expected one of 'batch', 'sequential'"),
        ({"decay": 1.5}, "rae decay=1.5: expected at least 0 and at most 1"),
    ],
)
def test_errors(options, message):
    none = np.zeros(1, int)
    with pytest.raises(ValueError, match=message):
        advantages.rae(np.zeros(1), none, none, np.zeros((1, 1)), **options)


def test_integers_are_converted():
    value, mask = np.array([3, 3, 3, 3]), np.ones((4, 3), bool)
    ours = advantages.broadcast_to_turns(value, mask, gamma=0.5)
    np.testing.assert_allclose(ours[0], [0.75, 1.5, 3])


def test_roles_outside_the_table_are_not_a_number():
    none = np.zeros(2, int)
    for order in ("batch", "sequential"):
        ours, after = rae(np.ones(2), np.array([0, 2]), none, np.zeros((1, 2)), order=order)
        np.testing.assert_array_equal(ours, [1, np.nan])
        np.testing.assert_allclose(after, [[0.05, 0]], atol=1e-6)
