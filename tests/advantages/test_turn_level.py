"""MARS: the turn-level formula, its relations, and the released pipeline on tokens.

selfplay.npz, `mars`: thu-nics/MARS 5979f75, executed. Its positions are one fewer than the inputs':
the first is cut off.
"""

import jax
import numpy as np
import pytest
import recorded
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl import advantages as library
from agentrl.advantages import grouping

VECTORS = recorded.arrays("selfplay")
CASES = sorted({k.split("_")[1] for k in VECTORS.files if k.startswith("mars_")})
moments = jax.jit(grouping.moments)
distinct = jax.jit(grouping.distinct, static_argnames="resolution")
relative = jax.jit(grouping.relative, static_argnames=("normalize", "epsilon"))
whiten = jax.jit(library.whiten)
CHOICES = {"identity": "none", "None": "none", "mean": "mean", "mean_std": "std"}
mars = jax.jit(
    library.mars,
    static_argnames=("compared", "within", "count_by", "normalize", "gamma", "whitened"),
)
RELEASED = ("within", "normalize", "whiten_rewards", "gamma", "recentre", "whiten_advantages")
mars_released = jax.jit(library.mars_released, static_argnames=RELEASED)
reinforce_pp = jax.jit(library.reinforce_pp)
mars_by_position = jax.jit(library.mars_by_position, static_argnames=RELEASED)


def case(number):
    data = {
        k.split("_", 2)[2]: VECTORS[k] for k in VECTORS.files if k.startswith(f"mars_{number}_")
    }
    inputs = [data[k][:, 1:] for k in ("scores", "turn_end", "response_mask")]
    options = {
        "within": "task_role" if data["separate"] else "task",
        "normalize": CHOICES[str(data["method"])],
        "whiten_rewards": bool(data["whiten_rewards"]),
        "gamma": float(data["gamma"]),
        "recentre": CHOICES[str(data["advantage_norm"])],
        "whiten_advantages": bool(data["whiten_advantages"]),
    }
    return data, (*inputs, data["game"], data["player"]), options


def about_roles(advantages, response, player):
    """Values at response positions less the mean of their role's."""
    out = np.where(response, advantages, 0).astype(np.float64)
    for role in np.unique(player):
        own = response.astype(bool) & (player == role)[:, None]
        out[own] -= out[own].mean()
    return out


@pytest.mark.parametrize("number", CASES)
def test_reference_pipeline(number):
    data, inputs, options = case(number)
    ours = mars_released(*inputs, **options)
    if options["recentre"] != "none" and options["whiten_rewards"]:
        # Step 4 over returns of whitened rewards: the reference's distinct values are made by its
        # rounding, so its mean of each role is another. All else is the same: about the mean of
        # its role everything agrees, up to the one deviation of step 5.
        ours_about, theirs_about = (
            about_roles(x, inputs[2], data["player"]) for x in (ours, data["advantages"])
        )
        scale = np.sqrt(np.mean(theirs_about**2) / np.mean(ours_about**2))
        np.testing.assert_allclose(ours_about * scale, theirs_about, rtol=1e-4, atol=2e-5)
        assert abs(scale - 1) < 0.1
    else:
        np.testing.assert_allclose(ours, data["advantages"], rtol=2e-6, atol=2e-6)
    raw = options | {"recentre": "none", "whiten_advantages": False}
    expected = np.where(inputs[2], data["raw_advantages"], 0)
    np.testing.assert_allclose(mars_released(*inputs, **raw), expected, atol=2e-5, rtol=1e-5)
    poisoned = np.where(inputs[1], inputs[0], np.nan)
    np.testing.assert_array_equal(mars_released(poisoned, *inputs[1:], **options), ours)


@pytest.mark.parametrize("number", CASES)
def test_streams_and_rows_give_the_same_pipeline(number):
    """Rewards per turn [N, T] and one row per stream, in another order than the streams."""
    data, inputs, options = case(number)
    score, end, response, task, role = inputs
    turn = np.where(response, np.cumsum(end, axis=1) - end, -1)
    count = len(score)
    shape = (count, turn.max() + 1)
    reward, mask = np.full(shape, np.nan, np.float32), np.zeros(shape, bool)
    for i, place in np.argwhere(end):
        reward[i, turn[i, place]], mask[i, turn[i, place]] = score[i, place], True
    plain = mars_released(*inputs, **options)
    p = np.random.default_rng(0).permutation(count)
    ours = mars_by_position(
        reward[p], mask[p], task[p], role[p], response, np.argsort(p), turn, **options
    )
    np.testing.assert_allclose(ours, plain, atol=1e-5)


def test_a_role_that_earned_nothing_gets_nothing():
    """Residues of whitening, 1e-8, are not blown up by a division by their own deviation."""
    rng = np.random.default_rng(0)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        role, task = np.arange(8) % 2, np.zeros(8, int)
        score = np.where(role[:, None] == 0, rng.normal(size=(8, 12)), 0).astype(np.float32)
        end = rng.random((8, 12)) < 0.3
        response = end | (rng.random((8, 12)) < 0.6)
        options = {"recentre": "std", "whiten_advantages": False, "within": "task_role"}
        ours = mars_released(score, end, response, task, role, **options)
        np.testing.assert_array_equal(np.asarray(ours)[role == 1], 0)


@pytest.mark.parametrize("number", CASES)
def test_reference_recentring_given_its_own_returns(number):
    """Steps 4 and 5 on the reference's float32 returns, compared exactly as it does."""
    data, inputs, options = case(number)
    if options["recentre"] == "none":
        pytest.skip("this case has no second centring")
    raw = data["raw_advantages"]
    owner = np.broadcast_to(np.unique(data["player"], return_index=True)[1], (len(raw), 2))
    owner = np.where(data["player"][:, None] == data["player"][owner], owner, 0).max(1)
    flat, owner = raw.reshape(-1), np.repeat(owner * raw.shape[1], raw.shape[1])
    against = moments(flat, owner, frequency=distinct(flat, owner, resolution=0.0))
    ours = relative(flat, against, normalize=options["recentre"], epsilon=1e-6).reshape(raw.shape)
    if options["whiten_advantages"]:
        ours = whiten(ours, inputs[2])
    np.testing.assert_allclose(np.where(inputs[2], ours, 0), data["advantages"], atol=1e-5)


@pytest.mark.parametrize("number", CASES)
def test_turns_and_tokens_agree_without_the_second_centring(number):
    """gamma 1 and one whitening: a turn's tokens share a value, and `mars` computes it."""
    data, inputs, options = case(number)
    end, response = inputs[1], inputs[2]
    turns = int(end.sum(1).max())
    shape = (len(end), turns)
    reward, cost, mask = (
        np.zeros(shape, np.float32),
        np.zeros(shape, np.float32),
        end[:, :turns] < 0,
    )
    at = np.zeros(shape, int)
    for i in range(len(end)):
        places = np.flatnonzero(end[i])
        start = 0
        for t, place in enumerate(places):
            reward[i, t], mask[i, t], at[i, t] = inputs[0][i, place], True, place
            cost[i, t] = response[i, start : place + 1].sum()
            start = place + 1
    tokens = mars_released(
        *inputs,
        within=options["within"],
        normalize="mean",
        whiten_rewards=False,
        recentre="none",
    )
    ours = mars(
        reward,
        mask,
        data["game"],
        data["player"],
        compared="rewards",
        within=options["within"],
        whitened=True,
        cost=cost,
    )
    of_turn = np.take_along_axis(np.asarray(tokens), at, axis=1)
    np.testing.assert_allclose(ours, np.where(mask, of_turn, 0), atol=2e-5)


def test_worked_numbers():
    # Role 0: returns to go (3, 2) and (1, 1), mean 7/4. Role 1: (4) and (0), mean 2.
    reward = np.float32([[1, 2], [0, 1], [4, 9], [0, 9]])
    mask = np.array([[1, 1], [1, 1], [1, 0], [1, 0]], bool)
    task, role = np.zeros(4, int), np.array([0, 0, 1, 1])
    ours = mars(reward, mask, task, role)
    np.testing.assert_allclose(ours, [[1.25, 0.25], [-0.75, -0.75], [2, 0], [-2, 0]], atol=1e-6)
    # Distinct values 3, 2, 1: mean 2.
    ours = mars(reward, mask, task, role, count_by="distinct")
    np.testing.assert_allclose(ours, [[1, 0], [-1, -1], [2, 0], [-2, 0]], atol=1e-6)
    # By tokens (1, 1, 4, 4): (3 + 2 + 4 + 4) / 10 = 1.3; role 1 by (3, 1): 3.
    cost = np.float32([[1, 1], [4, 4], [3, 99], [1, 99]])
    ours = mars(reward, mask, task, role, count_by="token", cost=cost)
    np.testing.assert_allclose(ours, [[1.7, 0.7], [-0.3, -0.3], [1, 0], [-3, 0]], atol=1e-6)
    # Immediate rewards 1, 2, 0, 1 of role 0 have mean 1: (0, 1) and (-1, 0), then summed.
    ours = mars(reward, mask, task, role, compared="rewards")
    np.testing.assert_allclose(ours, [[1, 1], [-1, 0], [2, 0], [-2, 0]], atol=1e-6)
    # One group for both roles: mean 11/6.
    ours = mars(reward, mask, task, role, within="batch")
    np.testing.assert_allclose(ours[:, 0], np.array([3, 1, 4, 0]) - 11 / 6, atol=1e-6)


@st.composite
def batches(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = (10, 5)
    mask = rng.random(shape) < rng.random((10, 1))
    return {
        "reward": np.where(mask, rng.choice([0.0, 1.0, -0.5], shape), 0).astype(np.float32),
        "mask": mask,
        "task": rng.integers(0, 2, 10),
        "role": rng.integers(0, 2, 10),
        "cost": rng.integers(1, 9, shape).astype(np.float32),
    }


@settings(max_examples=15, deadline=None)
@given(batch=batches())
def test_relations(batch):
    # Tasks and roles are names: one task is grouping by role, one of each is the batch.
    plain = mars(**batch, within="role")
    one_task = batch | {"task": np.full(10, 7)}
    np.testing.assert_allclose(mars(**one_task), plain, atol=1e-5)
    one = one_task | {"role": np.full(10, -3)}
    np.testing.assert_allclose(mars(**one), mars(**batch, within="batch"), atol=1e-5)
    # Centred on the batch and whitened by tokens or turns, it is REINFORCE++.
    ours = mars(**batch, within="batch", whitened=True)
    theirs = reinforce_pp(batch["reward"], batch["mask"], cost=batch["cost"])
    np.testing.assert_allclose(ours, theirs, atol=1e-4)
    # On one turn the two orders are the same; equal costs make tokens turns.
    first = {n: v[:, :1] if v.ndim == 2 else v for n, v in batch.items()}
    np.testing.assert_allclose(mars(**first), mars(**first, compared="rewards"), atol=1e-5)
    same = batch | {"cost": np.full((10, 5), 3, np.float32)}
    np.testing.assert_allclose(mars(**same, count_by="token"), mars(**same), atol=1e-5)


def test_equal_returns_give_exactly_zero():
    reward, none = np.full((3, 1), 0.1, np.float32), np.zeros(3, int)
    for count_by in ("turn", "distinct"):
        for normalize in ("mean", "std"):
            ours = mars(
                reward, np.ones((3, 1), bool), none, none, count_by=count_by, normalize=normalize
            )
            assert np.all(np.asarray(ours) == 0)
