"""HAE for a planner and an executor who are streams of their own."""

import functools

import jax
import numpy as np
import pytest
import tiny
from hypothesis import given, settings
from hypothesis import strategies as st

import envs
from agentrl import advantages, policies, rollout
from agentrl.config import env_section, section
from agentrl.config.build import build
from agentrl.run import restored
from agentrl.streams import Streams
from agentrl.trained import gradient_noise
from envs.switched.env import SWITCHER

RATES = {"gamma": 0.9, "lam": 0.7, "subgoal_lam": 0.6}


def drawn(seed, episodes=4, turns=9, plans=0.4):
    """Random episodes, planners first: stream b and b + episodes. Some end, others are cut."""
    rng = np.random.default_rng(seed)
    length = rng.integers(1, turns + 1, episodes)
    going = np.arange(turns) < length[:, None]
    planning = (rng.random((episodes, turns)) < plans) & going
    planning[:, 0] = True
    acting = going & ~planning
    mask = np.concatenate([planning, acting])
    ends = np.repeat(rng.random((1, episodes)) < 0.6, 2, axis=0).reshape(-1)
    own_last = mask & (np.cumsum(mask[:, ::-1], axis=1)[:, ::-1] == 1)
    numbers = rng.normal(size=(3, 2 * episodes, turns)).astype(np.float32)
    reward, value, bootstrap = np.where(mask, numbers, np.nan)
    return Streams(
        reward=reward,
        mask=mask,
        value=value,
        # A value of what follows the whole stream.
        bootstrap=np.broadcast_to(numbers[2][:, :1], mask.shape),
        terminated=own_last & ends[:, None],
        truncated=own_last & ~ends[:, None],
        parent=np.concatenate([np.full(episodes, -1), np.arange(episodes)]).astype(np.int32),
    )


def hae(streams, penalty=None, role=None, **rates):
    """With roles, of teams that have a switcher."""
    rates = tuple(sorted((RATES | rates).items()))
    return np.asarray(_hae(streams, penalty, role, rates))


@functools.partial(jax.jit, static_argnames="rates")
def _hae(streams, penalty, role, rates):
    estimator = advantages.hae_by_turn if role is None else advantages.switched_hae_by_turn
    return estimator(
        *(getattr(streams, n) for n in ("reward", "value", "mask", "terminated", "bootstrap")),
        streams.parent,
        *(() if role is None else (role,)),
        truncated=streams.truncated,
        penalty=penalty,
        **dict(rates),
    )


def plain(s, gamma, lam, subgoal_lam):
    """Float64 loops over each episode's turns, backwards."""
    out = np.zeros(s.mask.shape)
    half = len(s.mask) // 2
    for b in range(half):
        p, e = b, b + half
        turns = np.flatnonzero(s.mask[p] | s.mask[e])
        over = (s.terminated[p] | s.terminated[e]).any()
        action = next_plan = 0.0
        following = 0.0 if over else s.bootstrap[e, 0]
        rest, trace, discount = (0.0 if over else s.bootstrap[p, 0]), 0.0, 1.0
        for t in reversed(turns):
            if s.mask[e, t]:
                action = s.reward[e, t] + gamma * following - s.value[e, t] + gamma * lam * action
                rest = s.reward[e, t] + gamma * rest
                discount *= gamma
                following = s.value[e, t]
                out[e, t] = action
            else:
                next_plan = rest - s.value[p, t] + discount * subgoal_lam * trace
                out[p, t] = next_plan
                # The segment before begins to be read from its end.
                rest = following = s.value[p, t]
                trace, discount, action = next_plan, 1.0, 0.0
    return out


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from([0.1, 0.5, 0.9]))
def test_equals_plain_loops_and_never_reads_what_is_masked(seed, plans):
    s = drawn(seed, plans=plans)
    np.testing.assert_allclose(hae(s), plain(s, **RATES), atol=1e-5)


def test_one_subgoal_is_gae_of_the_executor():
    s = drawn(3, plans=0.0)
    only = np.arange(8) >= 4
    expected = advantages.gae(
        s.reward, s.value, s.mask, s.terminated, s.bootstrap, gamma=0.9, lam=0.7
    )
    np.testing.assert_allclose(hae(s)[only], expected[only], atol=1e-6)


def alternating(seed):
    """A subgoal for each turn of the executor: planners' streams have what executors' have."""
    s = drawn(seed, turns=8, plans=0.0)
    mask = np.zeros((8, 8), bool)
    mask[:4, ::2] = mask[4:, 1::2] = True
    last = np.zeros_like(mask)
    last[:4, 6] = last[4:, 7] = True
    rng = np.random.default_rng(seed)
    reward, value = np.where(mask, rng.normal(size=(2, 8, 8)), np.nan).astype(np.float32)
    reward[:4, ::2] = reward[4:, 1::2]
    ends = np.tile([True, False, True, False], 2)[:, None]
    return s.replace(
        mask=mask, reward=reward, value=value, terminated=last & ends, truncated=last & ~ends
    )


def test_a_subgoal_for_each_turn_is_gae_of_the_planner():
    s = alternating(5)
    out = hae(s)
    expected = advantages.gae(
        s.reward, s.value, s.mask, s.terminated, s.bootstrap, gamma=0.9, lam=0.6
    )
    np.testing.assert_allclose(out[:4], expected[:4], atol=1e-6)
    # Of the executor what is left is the one-step advantage over the planner's next value.
    after = np.asarray(s.value)[:4, 2::2]
    np.testing.assert_allclose(
        out[4:, 1:7:2], s.reward[4:, 1:7:2] + 0.9 * after - s.value[4:, 1:7:2], atol=1e-6
    )


def test_equals_the_paper_s_estimator_on_the_executor_s_turns():
    """One decision before each segment, and the turns of decisions left out."""
    s = alternating(7)
    rows = {name: np.asarray(getattr(s, name))[4:, 1::2] for name in ("reward", "value")}
    given_ = advantages.hae(
        rows["reward"],
        rows["value"],
        np.asarray(s.value)[:4, ::2],
        np.ones((4, 4), bool),
        np.ones((4, 4), bool),
        np.asarray(s.terminated)[4:, 1::2],
        np.asarray(s.bootstrap)[4:, 1::2],
        np.asarray(s.bootstrap)[:4, ::2],
        **RATES,
    )
    np.testing.assert_allclose(hae(s)[4:, 1::2], given_.action, atol=1e-6)
    np.testing.assert_allclose(hae(s)[:4, ::2], given_.subgoal, atol=1e-6)


def test_a_penalty_reaches_who_has_earned_it_and_the_plans_before():
    s = alternating(9)
    penalty = np.zeros((8, 8), np.float32)
    penalty[0, 2] = 0.5
    change = hae(s) - hae(s, penalty)
    # The second plan of the first episode, and by the trace the first; no action.
    np.testing.assert_allclose(change[0, :4:2], [0.9 * 0.6 * 0.5, 0.5], atol=1e-6)
    assert not change[1:].any() and not change[0, 4:].any()


def switched():
    """HiPER's worked example with a turn of its own for each decision, from the second on."""
    low, high, term = [0.3, 0.4, 0.5, 0.6, 0.8], [0.35, 0.55], [0.3, 0.5, 0.5, 0.7]
    plans, acts, decides = [0, 5], [1, 3, 6, 8, 10], [2, 4, 7, 9]
    mask = np.zeros((3, 12), bool)
    value, reward = np.full((2, 3, 12), np.nan, np.float32)
    for row, (turns, values) in enumerate(((plans, high), (acts, low), (decides, term))):
        mask[row, turns], value[row, turns] = True, values
    reward[1, acts] = [0, 0.2, 0, 0, 1]
    last = np.zeros((3, 12), bool)
    last[[0, 1, 2], [5, 10, 9]] = True
    streams = Streams(
        reward=reward,
        mask=mask,
        value=value,
        bootstrap=np.zeros((3, 12), np.float32),
        terminated=last,
        truncated=np.zeros_like(mask),
        parent=np.array([-1, 0, 0], np.int32),
    )
    return streams, (plans, acts, decides)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_a_switcher_is_credited_with_what_follows_its_decision(order):
    """The code's own numbers, whatever the order of the streams."""
    s, turns = switched()
    order = np.array(order)
    parent = np.where(s.parent[order] < 0, -1, np.flatnonzero(order == 0)[0]).astype(np.int32)
    s = jax.tree.map(lambda x: np.asarray(x)[order], s).replace(parent=parent)
    rates = {"gamma": 0.99, "lam": 0.95, "subgoal_lam": 0.95}
    out = hae(s, role=order.astype(np.int32), **rates)
    expected = [
        [0.787519, 0.4301],
        [0.420002, 0.3445, 0.451484, 0.3801, 0.2],
        [0.4445, 0.4801, 0.49, 0.3],
    ]
    for row, seat in enumerate(order):
        np.testing.assert_allclose(out[row, turns[seat]], expected[seat], atol=2e-6)
        assert not np.delete(out[row], turns[seat]).any()
    penalty = np.zeros_like(out)
    penalty[np.flatnonzero(order == 2)[0], 4] = 0.5
    change = out - hae(s, penalty, role=order.astype(np.int32), **rates)
    assert change[order == 2, 4] == pytest.approx(0.5, abs=1e-6) and np.count_nonzero(change) == 1


@functools.cache
def collected(name="PlannedKeyDoor-v1"):
    env, params = envs.make(name, rooms=1, max_steps_in_episode=12, patience=3)
    policy = policies.mlp(env.observation_shape, env.num_codes, env.num_actions, hidden=(8,))
    made = rollout.episodes(policy, env, params, num_groups=8, group_size=1, mask_illegal=True)
    out = jax.jit(made.collect)(policy.init(jax.random.key(0)), None, jax.random.key(1))
    return made, *jax.tree.map(np.asarray, out[1:3])


def test_streams_of_a_planner_and_its_executor():
    made, s, rows = collected()
    np.testing.assert_array_equal(s.parent[::2], -1)
    np.testing.assert_array_equal(s.parent[1::2], np.arange(0, 16, 2))
    assert "parent" in made.provides
    planner, executor = s.mask[::2], s.mask[1::2]
    assert planner[:, 0].all() and not (planner & executor).any()
    # Both get the same, the planner on the turn of its last decision.
    np.testing.assert_array_equal(s.reward[::2].sum(axis=1), s.reward[1::2].sum(axis=1))
    assert (np.diff(np.flatnonzero(planner[0])) <= 4).all()
    assert np.isfinite(hae(Streams(**{k: getattr(s, k) for k in s.__dataclass_fields__}))).all()


def test_streams_of_a_team_with_a_switcher():
    _, s, rows = collected("SwitchedKeyDoor-v1")
    np.testing.assert_array_equal(s.parent.reshape(8, 3), [[-1, 3 * i, 3 * i] for i in range(8)])
    planner, executor, switcher = s.mask.reshape(8, 3, -1).swapaxes(0, 1)
    assert (planner.astype(int) + executor + switcher).max() == 1 and switcher.any()
    out = hae(Streams(**{k: getattr(s, k) for k in s.__dataclass_fields__}), role=s.role)
    assert np.isfinite(out).all() and out[s.role == SWITCHER][switcher].any()
    assert not out[~s.mask].any() and set(np.unique(rows.role)) == {0, 1, 2}


@pytest.mark.long
def test_learns_in_words():
    """Warm start and updates of a planner and an executor who share a small transformer."""
    config = tiny.talk_config(
        updates=4,
        warm_start__updates=2,
        expert__held_out=False,
        objective__kl__weight=0.0,
        env=env_section("PlannedKeyDoor-v1", rooms=1, max_steps_in_episode=8),
        policy__critic="shared",
        objective__value__weight=0.5,
        policy__constrained=True,
        rollout=section(rollout.episodes, num_groups=4, group_size=2),
        context=section(rollout.contexts.window, history=0),
        advantage=section(advantages.hae_by_turn),
        learner__normalize_advantage="role",
        reward={"invalid_action_penalty": {"coefficient": 0.02}},
    )
    experiment = build(config)
    state = jax.jit(experiment.init)(0)
    state, _ = jax.jit(tiny.train_of(experiment, "warm_start"))(state)
    state, metrics = jax.jit(tiny.train_of(experiment))(experiment.restart(state))
    assert metrics["rejected_updates"][0] == 0 and metrics["loss/value"][0] > 0
    assert metrics["win_rate/0/self"][1] == 2 * 8
    # Noise of the executor's gradients, from rows of many tokens: all turns are early ones.
    run = restored.Run(config, experiment, 4, jax.tree.map(lambda x: x[None], state))
    found = gradient_noise.measure(run, 8, 2, gradient_noise.ways(run))
    assert set(found) == {"hae", "gae"}
    for noise, signal, square in found.values():
        assert np.isfinite([noise, signal]).all() and noise > 0 and square > 0


def test_roles_are_told_apart_where_there_are_some():
    with pytest.raises(ValueError, match="of which this rollout has one: use 'batch'"):
        build(tiny.groups_config(learner__normalize_advantage="role"))


def test_needs_a_planner():
    config = tiny.matches_config(
        advantage=section(advantages.hae_by_turn), policy__critic="separate"
    )
    with pytest.raises(ValueError, match="needs 'parent'.*such as PlannedHousehold-v1"):
        build(config)
