"""Group-relative estimators: worked numbers, reference arrays, relations, invariances."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dense_cases import VECTORS, case
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import fetched

from agentrl import advantages as library

STATIC = ("normalize", "statistics", "singleton")


class advantages:  # noqa: N801
    """The estimators under jit, as they run in training, with results in numpy."""

    grpo = staticmethod(fetched(library.grpo, static_argnames=STATIC))
    rloo = staticmethod(fetched(library.rloo, static_argnames=STATIC[1:]))
    gigpo = staticmethod(fetched(library.gigpo, static_argnames=STATIC))
    anchor_segments = staticmethod(fetched(library.anchor_segments))
    reinforce_pp_baseline = staticmethod(
        fetched(library.reinforce_pp_baseline, static_argnames=STATIC[1:])
    )
    dynamic_sampling = staticmethod(fetched(library.dynamic_sampling))

    top_variance = staticmethod(fetched(library.top_variance))
    pairwise_sign = staticmethod(fetched(library.pairwise_sign))
    mapo = staticmethod(fetched(library.mapo))


DENSE = sorted({key[:3] for key in VECTORS.files if key.startswith("b")})


@pytest.mark.parametrize("name", DENSE)
def test_reference_gigpo_with_turn_statistics(name):
    data = case(name)
    for k in range(len(data["cfg_gamma"])):
        options = {
            "normalize": "std" if data["cfg_std"][k] else "mean",
            "statistics": "turn",
            "singleton": "raw",
            "penalty": data["penalty"],
        }
        inputs = (data["reward"], data["active"], data["group"])
        np.testing.assert_allclose(
            advantages.grpo(*inputs, **options), data["o_grpo"][k], atol=2e-5
        )
        np.testing.assert_allclose(
            advantages.gigpo(
                *inputs,
                data["anchor"],
                gamma=float(data["cfg_gamma"][k]),
                step_weight=float(data["cfg_w"][k]),
                **options,
            ),
            data["o_adv"][k],
            atol=2e-5,
        )
        options.pop("normalize")
        np.testing.assert_allclose(
            advantages.rloo(*inputs, **options), data["o_rloo"][k], atol=2e-5
        )


@pytest.mark.parametrize("name", [n for n in DENSE if float(VECTORS[n + "_coef"]) == 0])
def test_reference_gigpo_with_stream_statistics(name):
    """Without penalties the reference's per-trajectory switch is the papers' equation."""
    data = case(name)
    for k in range(len(data["cfg_gamma"])):
        options = {"statistics": "stream", "singleton": "raw"}
        inputs = (data["reward"], data["active"], data["group"])
        np.testing.assert_allclose(
            advantages.gigpo(
                *inputs,
                data["anchor"],
                gamma=float(data["cfg_gamma"][k]),
                step_weight=float(data["cfg_w"][k]),
                normalize="std" if data["cfg_std"][k] else "mean",
                **options,
            ),
            data["o_adv_traj"][k],
            atol=2e-5,
        )
        np.testing.assert_allclose(
            advantages.rloo(*inputs, **options), data["o_rloo_traj"][k], atol=2e-5
        )


@pytest.mark.parametrize("name", DENSE)
def test_reference_anchor_groups(name):
    data = case(name)
    owner = np.asarray(advantages.anchor_segments(data["active"], data["group"], data["anchor"]))
    gid = data["o_step_gid"]
    active = data["active"]
    same_ours = owner[active][:, None] == owner[active][None]
    same_reference = gid[active][:, None] == gid[active][None]
    np.testing.assert_array_equal(same_ours, same_reference)
    assert np.all(owner[~active] == active.size)


@pytest.mark.parametrize("name", DENSE)
def test_reference_reinforce_pp_baseline(name):
    data = case(name)
    ours = advantages.reinforce_pp_baseline(
        data["reward"],
        data["active"],
        data["group"],
        statistics="turn",
        singleton="raw",
        penalty=data["penalty"],
        cost=data["resp_len"].astype(np.float32),
    )
    for k in range(len(data["cfg_gamma"])):
        np.testing.assert_allclose(ours, data["o_rfpp_base"][k], atol=2e-5)


def test_worked_numbers():
    # Two wins in two turns, two losses in four: returns 10, 10, 0, 0, mean 5, sample deviation
    # sqrt(4 * 25 / 3) = 5.7735.
    reward = np.zeros((4, 4), np.float32)
    reward[:2, 1] = 10.0
    mask = np.arange(4)[None] < np.array([2, 2, 4, 4])[:, None]
    group = np.zeros(4, np.int32)
    np.testing.assert_allclose(advantages.grpo(reward, mask, group)[0, :2], 0.866025, atol=1e-5)
    centred = advantages.grpo(reward, mask, group, normalize="mean")
    np.testing.assert_allclose(centred[:, 0], [5, 5, -5, -5], atol=1e-6)
    # Turn statistics: the baseline is 10 * 4 / 12 = 3.3333.
    by_turn = advantages.grpo(reward, mask, group, normalize="mean", statistics="turn")
    np.testing.assert_allclose(by_turn[:, 0], [20 / 3, 20 / 3, -10 / 3, -10 / 3], atol=1e-5)
    # Leave one out: 10 - (10 + 0 + 0) / 3.
    np.testing.assert_allclose(
        advantages.rloo(reward, mask, group)[:, 0], [20 / 3, 20 / 3, -20 / 3, -20 / 3], atol=1e-5
    )
    # All start from one anchor, everything else is singular: the step returns 9.5, 9.5, 0, 0 from
    # the start are centred at 4.75, lone anchors add nothing.
    anchor = np.arange(32, dtype=np.uint32).reshape(4, 4, 2)
    anchor[:, 0] = 0
    step = advantages.gigpo(reward, mask, group, anchor, normalize="mean") - centred
    np.testing.assert_allclose(step[:, 0], [4.75, 4.75, -4.75, -4.75], atol=1e-5)
    np.testing.assert_array_equal(step[:, 1:], 0)


@st.composite
def batches(draw):
    """Random batches with repeated anchors, several groups and poison behind the mask."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    # One shape for all, so that one compilation serves: short episodes and empty streams are masks.
    streams, turns, groups = 8, 6, rng.integers(1, 4)
    length = rng.integers(0, rng.integers(1, turns + 1) + 1, streams)
    mask = np.arange(turns)[None] < length[:, None]
    mask &= rng.random((streams, turns)) < 0.9
    reward = rng.choice([0.0, 0.0, 1.0, -0.1], (streams, turns)).astype(np.float32)
    return {
        "reward": np.where(mask, reward, 0).astype(np.float32),
        "mask": mask,
        "group": rng.integers(0, groups, streams).astype(np.int32),
        "anchor": rng.integers(0, 4, (streams, turns, 1)).astype(np.uint32).repeat(2, -1),
        "penalty": np.where(rng.random(mask.shape) < 0.2, 0.1, 0).astype(np.float32),
    }


OPTIONS = [
    {"normalize": normalize, "statistics": statistics, "singleton": singleton}
    for normalize in ("std", "mean")
    for statistics in ("stream", "turn")
    for singleton in ("zero", "raw")
]


def plain_gigpo(b, *, gamma, step_weight, normalize, statistics, singleton, epsilon=1e-6):
    """GiGPO written as loops in float64, from the equations alone."""
    reward, mask, group = b["reward"].astype(float), b["mask"], b["group"]
    streams, turns = mask.shape
    out = np.zeros(mask.shape)
    total = np.array([reward[i][mask[i]].sum() for i in range(streams)])
    returns = np.zeros(mask.shape)
    for i in range(streams):
        after = 0.0
        for t in reversed(range(turns)):
            if mask[i, t]:
                after = reward[i, t] + gamma * after
                returns[i, t] = after - b["penalty"][i, t]

    def normalised(score, of, members):
        constant = len(members) < 2 or np.ptp(members) < 1e-6
        centre = 0.0 if constant else of - np.mean(members)
        if normalize == "mean":
            return centre + score - of
        return 0.0 if constant else (centre + score - of) / (np.std(members, ddof=1) + epsilon)

    for i in range(streams):
        for t in range(turns):
            if not mask[i, t]:
                continue
            mates = [j for j in range(streams) if group[j] == group[i] and mask[j].any()]
            score = total[i] - b["penalty"][i, t]
            rows = [(j, u) for j in mates for u in range(turns) if mask[j, u]]
            if statistics == "stream":
                members, of = [total[j] for j in mates], total[i]
            else:
                members, of = [total[j] - b["penalty"][j, u] for j, u in rows], score
            episode = normalised(score, of, members)
            if len(members) == 1 and singleton == "raw":
                episode = score
            same = [
                returns[j, u] for j, u in rows if (b["anchor"][j, u] == b["anchor"][i, t]).all()
            ]
            out[i, t] = episode + step_weight * normalised(returns[i, t], returns[i, t], same)
    return out


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(o.values()))
@settings(max_examples=15, deadline=None)
@given(batch=batches())
def test_gigpo_equals_plain_loops(options, batch):
    ours = advantages.gigpo(**batch, gamma=0.9, step_weight=0.7, **options)
    plain = plain_gigpo(batch, gamma=0.9, step_weight=0.7, **options)
    # Spreads that are only float32 rounding blow up against epsilon: compare on the scale of std.
    np.testing.assert_allclose(ours, plain, atol=2e-4, rtol=1e-3)


@settings(max_examples=20, deadline=None)
@given(batch=batches())
def test_relations(batch):
    no_penalty = {k: batch[k] for k in ("reward", "mask", "group")}
    # Step weight 0 is GRPO.
    np.testing.assert_array_equal(
        advantages.gigpo(**batch, step_weight=0.0),
        advantages.grpo(**no_penalty, penalty=batch["penalty"]),
    )
    # Leave-one-out is the centred return times n / (n - 1).
    centred = np.asarray(advantages.grpo(**no_penalty, normalize="mean"))
    rloo = np.asarray(advantages.rloo(**no_penalty))
    for i, g in enumerate(batch["group"]):
        n = sum(batch["mask"][j].any() for j in np.flatnonzero(batch["group"] == g))
        np.testing.assert_allclose(rloo[i], centred[i] * n / max(n - 1, 1), atol=1e-5)
    # Group ids are only names, and anchors of different groups never merge.
    renamed = batch | {"group": (1000003 * (batch["group"] + 1)).astype(np.int32)}
    np.testing.assert_allclose(advantages.gigpo(**renamed), advantages.gigpo(**batch), atol=1e-6)


def test_adding_a_constant_return_changes_nothing():
    rng = np.random.default_rng(0)
    reward = rng.normal(size=(8, 5)).astype(np.float32)
    mask, group = np.ones((8, 5), bool), np.repeat([0, 1], 4)
    anchor = rng.integers(0, 3, (8, 5, 1)).astype(np.uint32).repeat(2, -1)
    shifted = reward.copy()
    shifted[:, -1] += 3.0
    for estimator in (advantages.grpo, advantages.rloo):
        np.testing.assert_allclose(
            estimator(shifted, mask, group), estimator(reward, mask, group), atol=2e-5
        )
    # GiGPO with gamma 1: every step return is shifted by the same amount.
    np.testing.assert_allclose(
        advantages.gigpo(shifted, mask, group, anchor, gamma=1.0),
        advantages.gigpo(reward, mask, group, anchor, gamma=1.0),
        atol=2e-5,
    )


def test_equal_returns_give_exactly_zero():
    reward = np.zeros((6, 3), np.float32)
    reward[:, 0] = 0.1
    args = (reward, np.ones((6, 3), bool), np.zeros(6, np.int32))
    anchor = np.zeros((6, 3, 2), np.uint32) + np.arange(3, dtype=np.uint32)[None, :, None]

    @jax.jit
    def estimates(args, anchor):
        return [
            library.rloo(*args),
            *(library.grpo(*args, **options) for options in OPTIONS),
            *(library.gigpo(*args, anchor, **options) for options in OPTIONS),
        ]

    for estimate in estimates(args, anchor):
        assert np.all(np.asarray(estimate) == 0)


def test_lone_stream_and_lone_anchor():
    reward = np.array([[0.0, 2.0], [1.0, 0.0], [3.0, 0.0]], np.float32)
    mask, group = np.ones((3, 2), bool), np.array([5, 9, 9], np.int32)
    zero = advantages.grpo(reward, mask, group)
    raw = advantages.grpo(reward, mask, group, singleton="raw")
    np.testing.assert_array_equal(zero[0], [0, 0])
    np.testing.assert_array_equal(raw[0], [2, 2])
    np.testing.assert_array_equal(zero[1:], raw[1:])
    unique = np.arange(12, dtype=np.uint32).reshape(3, 2, 2)
    np.testing.assert_array_equal(advantages.gigpo(reward, mask, group, unique), zero)


def test_dynamic_sampling_equals_reference():
    returns, n = VECTORS["f0_episode_reward"].astype(np.float32), int(VECTORS["f0_group_n"])
    keep = advantages.dynamic_sampling(
        returns[:, None], np.ones((len(returns), 1), bool), np.arange(len(returns)) // n
    )
    np.testing.assert_array_equal(keep, VECTORS["f0_o_keep"])


def test_equal_returns_that_were_summed_in_another_order_give_exactly_zero():
    """The same rewards in another order: sums differ by more than their own rounding."""
    rng = np.random.default_rng(0)
    for turns, bonuses in (
        (50, [1, 1, 1, 10, -1, -1]),
        (50, [1, -1, 1, -1, 5]),
        (100, [10]),
    ):
        base = np.full(turns, -0.1, np.float32)
        base[: len(bonuses)] += np.float32(bonuses)
        reward = np.stack([rng.permutation(base) for _ in range(8)])
        mask, group = np.ones(reward.shape, bool), np.zeros(8, int)
        assert np.ptp(np.asarray(jnp.sum(reward, axis=1))) > 0
        for statistics in ("stream", "turn"):
            ours = advantages.grpo(reward, mask, group, statistics=statistics)
            np.testing.assert_array_equal(ours, 0)
        assert not np.any(advantages.dynamic_sampling(reward, mask, group))


def test_low_precision_rewards_are_converted():
    """bfloat16 counts to 256: eight streams of 64 turns, half of which win."""
    reward = np.zeros((8, 64), np.float32)
    reward[:4, -1] = 1
    mask, group = np.ones((8, 64), bool), np.zeros(8, int)
    for dtype in (jnp.bfloat16, jnp.float16, jnp.int32):
        for statistics in ("stream", "turn"):
            ours = advantages.grpo(jnp.asarray(reward, dtype), mask, group, statistics=statistics)
            plain = advantages.grpo(reward, mask, group, statistics=statistics)
            assert ours.dtype == jnp.float32
            np.testing.assert_allclose(ours, plain, atol=1e-6)


def test_roles_are_compared_apart():
    rng = np.random.default_rng(1)
    reward = rng.normal(size=(12, 5)).astype(np.float32)
    mask = rng.random((12, 5)) < 0.8
    group, role = np.arange(12) // 6, rng.integers(0, 3, 12)
    anchor = rng.integers(0, 3, (12, 5, 2)).astype(np.uint32)
    joint = group * 3 + role
    for function, more in (
        (advantages.grpo, ()),
        (advantages.rloo, ()),
        (advantages.gigpo, (anchor,)),
        (advantages.reinforce_pp_baseline, ()),
        (advantages.dynamic_sampling, ()),
        (advantages.top_variance, ()),
        (advantages.pairwise_sign, ()),
        (advantages.mapo, ()),
    ):
        apart = function(reward, mask, joint, *more)
        np.testing.assert_array_equal(function(reward, mask, group, *more, role=role), apart)
        # One role is none, and numbers per role as well as roles are the same.
        one = function(reward, mask, group, *more, role=np.full(12, 7))
        np.testing.assert_array_equal(one, function(reward, mask, group, *more))
        np.testing.assert_array_equal(function(reward, mask, joint, *more, role=role), apart)


def test_flow_grpo_is_grpo():
    """AgentFlow: the paper's statistics are per rollout, its code's over the rows of all turns."""
    mask = np.arange(5) < np.array([3, 5, 2, 4])[:, None]
    last = np.cumsum(mask[:, ::-1], axis=1)[:, ::-1] == 1
    reward = np.where(last & mask, np.float32([1, 0, 1, 0])[:, None], 0)
    for statistics, right, wrong in (
        ("stream", 0.866024, -0.866024),
        ("turn", 1.292835, -0.718242),
    ):
        advantage = advantages.grpo(reward, mask, np.zeros(4, int), statistics=statistics)
        expected = np.where(np.array([True, False, True, False])[:, None], right, wrong)
        np.testing.assert_allclose(advantage, np.where(mask, expected, 0.0), atol=3e-6)


def test_a_penalty_beside_statistics_without_it():
    """The numbers of the docstring of `grpo`."""
    mask, group = np.ones((4, 1), bool), np.zeros(4, int)
    penalty = np.float32([[0.1], [0], [0], [0]])
    expected = {0.0: (0, -1.5), 0.001: (-200, -1.5), 0.1: (-2.5, -1.2), 1.0: (-0.7, -0.6)}
    for last, (by_stream, by_turn) in expected.items():
        reward = np.float32([[0], [0], [0], [last]])
        ours = advantages.grpo(reward, mask, group, penalty=penalty)[0, 0]
        np.testing.assert_allclose(ours, by_stream, rtol=0.01, atol=0.03)
        ours = advantages.grpo(reward, mask, group, penalty=penalty, statistics="turn")[0, 0]
        np.testing.assert_allclose(ours, by_turn, atol=0.03)


def test_pairwise_sign_worked_numbers():
    mask, group = np.ones((5, 1), bool), np.zeros(5, int)
    ours = advantages.pairwise_sign(np.float32([[1], [0], [0], [1], [0]]), mask, group)
    np.testing.assert_allclose(ours[:, 0], [0.6, -0.4, -0.4, 0.6, -0.4], atol=1e-6)
    graded = np.float32([[0.1], [0.6], [1], [5], [5]])
    ours = advantages.pairwise_sign(graded, mask, np.array([0, 0, 0, 1, 2]))
    np.testing.assert_allclose(ours[:, 0], [-2 / 3, 0, 2 / 3, 0, 0], atol=1e-6)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_pairwise_sign_equals_plain_loops(seed):
    rng = np.random.default_rng(seed)
    mask = rng.random((14, 3)) < 0.6
    reward = np.where(mask, rng.choice([0.0, 0.1, 0.3], (14, 3)), np.nan).astype(np.float32)
    group = rng.integers(0, 3, 14)
    returns = np.where(mask, reward, 0).astype(np.float64).sum(1)
    expected = np.zeros((14, 3))
    for i in range(14):
        others = [j for j in range(14) if group[j] == group[i] and mask[j].any()]
        signs = [np.sign(np.round(returns[i] - returns[j], 5)) for j in others]
        expected[i] = np.where(mask[i], np.mean(signs) if signs else 0, 0)
    ours = advantages.pairwise_sign(reward, mask, group)
    np.testing.assert_allclose(ours, expected, atol=1e-6)


def test_gradients_are_stopped():
    """Advantages are constants of the loss; those that a config can name: test_conformance."""
    mask, ids = jnp.ones((4, 3), bool), jnp.zeros(4, int)
    values = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    for function in (
        lambda r: library.whiten(r, mask),
        lambda r: library.rae(r[:, 0], ids, ids, jnp.zeros((1, 1)))[0],
        lambda r: library.broadcast_to_turns(r[:, 0], mask),
    ):
        gradient = jax.jit(jax.grad(lambda r, f=function: jnp.sum(f(r) ** 2)))(values)
        np.testing.assert_array_equal(gradient, 0)
