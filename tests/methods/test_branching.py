"""Branching rollouts: when episodes branch, what branches share, and hard and soft advantages."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiments import lake
from tiny import talk_config

from agentrl import advantages, rollout
from agentrl.config import section
from agentrl.config.build import build
from agentrl.learner.passes import log_probs
from agentrl.methods.branch_points import (
    branch_probability,
    first_entropy,
    initial_budget,
    within_budget,
)
from agentrl.methods.branching import branching, collect
from agentrl.rollout.unroll import keep_turn, prefix, unroll

GROUPS, SIZE, INITIAL, TURNS = 3, 6, 2, 5


def config_of(context=rollout.contexts.whole, critic=False, **options):
    """Commands on a lake. With alpha=1, beta=0 initial episodes branch as early as they can."""
    config = talk_config(warm_start__updates=0, policy__constrained=True)
    config.env.max_steps_in_episode = TURNS
    options = {"num_groups": GROUPS, "group_size": SIZE, "initial": INITIAL} | options
    config.rollout = section(branching, **options)
    config.context = section(context)
    config.advantage = section(advantages.grpo)
    if critic:
        config.policy.critic, config.objective.value.weight = "shared", 0.5
        config.advantage = section(advantages.gae, gamma=0.99, lam=0.95)
    config.learner.minibatches = 1
    config.log_every = 1
    return config


def planned(context, **options):
    """The experiment of `collected`, and its plan. One of the contexts has a critic, too."""
    experiment = build(config_of(context, critic=context is rollout.contexts.whole, **options))
    (plan,) = experiment.rollout.collect.args
    return experiment, plan


@functools.cache
def program(context, sharpness=None):
    """(a first state, the collection from it with these numbers of a plan)."""
    experiment, plan = planned(context, sharpness=sharpness)
    state = jax.jit(experiment.init)(0)

    def first(numbers):
        return collect(plan._replace(**numbers), state.params, None, jax.random.key(4))

    return state, jax.jit(first)


@functools.cache
def collected(context=rollout.contexts.whole, **options):
    """(experiment, state, streams, rows, metrics) of a first collection."""
    experiment, plan = planned(context, **options)
    state, first = program(context)
    _, *found = first({name: getattr(plan, name) for name in ("alpha", "beta", "penalty")})
    return experiment, state, *jax.tree.map(np.asarray, found)


def test_probability_of_a_branch():
    chance = branch_probability(jnp.array([-0.4, 0.0, 0.3, 1.0, 9.0]))
    np.testing.assert_allclose(chance, [0.42, 0.5, 0.56, 0.7, 1.0], rtol=1e-6)
    # AEPO's penalty for branch points in a row, and its budget of initial episodes.
    run = jnp.arange(4)
    chance = branch_probability(jnp.full(4, 0.3), run, alpha=0.5, beta=0.2, penalty=0.05)
    np.testing.assert_allclose(chance, [0.56, 0.532, 0.504, 0.476], rtol=1e-6)
    budget = initial_budget(jnp.array([0.3, 0.1, 0.2]), jnp.array([0.1, 0.5, 0.2]), 16)
    np.testing.assert_array_equal(budget, [9, 8, 9])  # 8.40, 7.20 and 8.0, as the code rounds them
    far = initial_budget(jnp.array([9.0, -9.0]), jnp.zeros(2), 16, sharpness=10.0)
    np.testing.assert_array_equal(far, [16, 1])
    branches = jnp.array([[True, False, True, True], [True, True, False, True]])
    np.testing.assert_array_equal(
        within_budget(branches, jnp.array([2, 0])), [[1, 0, 1, 0], [0, 0, 0, 0]]
    )
    entropy = jnp.array([[1.0, 3.0, 8.0], [2.0, jnp.nan, jnp.nan], [jnp.nan] * 3])
    mean = first_entropy(entropy, jnp.array([3, 1, 0]), first_tokens=2)
    np.testing.assert_array_equal(mean, [2.0, 2.0, 0.0])


def test_a_penalty_spreads_branches():
    """Without it each initial episode branches in turns 1 and 2; with 1 never twice in a row."""
    *_, streams, _, _ = collected()
    first = streams.call_turn[streams.call_turn >= 0]
    *_, spread, _, _ = collected(alpha=1.0, beta=0.0, penalty=1.0)
    *_, dense, _, _ = collected(alpha=1.0, beta=0.0)
    assert len(first) and set(dense.call_turn) <= {-1, 1, 2}
    assert set(spread.call_turn) <= {-1, 1, 3} and 3 in spread.call_turn


def test_a_budget_by_entropies_splits_a_group_between_branches_and_fresh_episodes():
    """Six episodes, two of them initial, that branch as early as they can."""
    whole = rollout.contexts.whole
    _, first = program(whole, 0.0)
    numbers = {"alpha": 1.0, "beta": 0.0, "penalty": 0.0}
    # Without a difference four begin at the start, floor(6 / 2) + 1, and two branch: the first
    # branch points of the two initial episodes, where they have one.
    _, streams, _, metrics = first({**numbers, "sharpness": 0.0})
    np.testing.assert_array_equal(metrics["branch_budget"], [2 * GROUPS, GROUPS])
    *_, free, _, _ = collected(whole, alpha=1.0, beta=0.0)
    could = (free.call_turn.reshape(GROUPS, SIZE) >= 0).sum(axis=1)
    turn = np.asarray(streams.call_turn).reshape(GROUPS, SIZE)
    np.testing.assert_array_equal((turn >= 0).sum(axis=1), np.minimum(could, 2))
    np.testing.assert_array_equal(turn[:, INITIAL:4], free.call_turn.reshape(GROUPS, SIZE)[:, 2:4])
    # By a large factor all begin anew where first replies are the more uncertain ones, and where
    # they are not all others branch.
    _, streams, _, metrics = first({**numbers, "sharpness": 1e9})
    count = (np.asarray(streams.call_turn).reshape(GROUPS, SIZE) >= 0).sum(axis=1)
    assert all(n in (0, most) for n, most in zip(count, could, strict=True))
    # A group whose initial episodes have one turn has nothing to compare, and cannot branch.
    budgets = metrics["branch_budget"][0] - 2 * (could == 0).sum()
    assert budgets % (SIZE - INITIAL) == 0


shared_prefix = jax.jit(advantages.shared_prefix)


def test_hard_advantages_worked_example():
    reward, mask = np.zeros((4, 3), np.float32), np.ones((4, 3), bool)
    reward[:, 2] = [1, 0, 0, 1]
    soft = np.asarray(jax.jit(advantages.grpo)(reward, mask, np.zeros(4, np.int32)))
    np.testing.assert_allclose(soft[:, 0], 0.8660 * np.array([1, -1, -1, 1]), atol=1e-4)
    # Streams 1 and 3 branch off stream 0 at turn 1.
    parent, turn = np.array([-1, 0, -1, 0]), np.array([-1, 1, -1, 1])
    hard = np.asarray(shared_prefix(soft, mask, parent, turn))
    np.testing.assert_allclose(hard[[0, 1, 3], 0], 0.28868, atol=1e-5)
    np.testing.assert_array_equal(hard[2], soft[2])
    np.testing.assert_array_equal(hard[:, 1:], soft[:, 1:])
    # Stream 3 branches off stream 1 at turn 2: it shares turn 1 with it, and turn 0 with both.
    parent, turn = np.array([-1, 0, -1, 1]), np.array([-1, 1, -1, 2])
    hard = np.asarray(shared_prefix(soft, mask, parent, turn))
    np.testing.assert_allclose(hard[[0, 1, 3], 0], 0.28868, atol=1e-5)
    np.testing.assert_allclose(hard[:, 1], [0.8660, 0, -0.8660, 0], atol=1e-4)
    np.testing.assert_array_equal(hard[:, 2], soft[:, 2])


def test_turns_that_were_not_acted_take_no_part():
    advantage = np.array([[1.0, 5.0], [3.0, jnp.nan]])
    mask = np.array([[True, True], [True, False]])
    hard = shared_prefix(advantage, mask, np.array([-1, 0]), np.array([-1, 1]))
    np.testing.assert_array_equal(hard, [[2.0, 5.0], [2.0, 0.0]])
    with pytest.raises(ValueError, match="shared_prefix"):
        advantages.shared_prefix(jnp.zeros((4, 7)), mask, jnp.zeros(2, int), jnp.zeros(2, int))


@pytest.mark.parametrize("context", [rollout.contexts.whole, rollout.contexts.window])
def test_branches_share_the_first_turns_and_differ_after(context):
    _, _, streams, rows, metrics = collected(context, alpha=1.0, beta=0.0)
    turn, parent = streams.call_turn, streams.parent
    branch = np.flatnonzero(turn >= 0)
    assert branch.size and (turn[branch] > 0).all()
    # A group is one task, and has its episodes whatever has branched.
    np.testing.assert_array_equal(streams.group, np.repeat(np.arange(GROUPS), SIZE))
    for leaf in jax.tree.leaves(streams.first_state):
        np.testing.assert_array_equal(leaf, np.repeat(leaf[::SIZE], SIZE, axis=0))
    assert streams.mask[:, 0].all()
    assert (parent.reshape(GROUPS, SIZE)[:, :INITIAL] == -1).all()
    differ = 0
    for n in branch:
        source, first = parent[n], turn[n]
        assert streams.group[n] == streams.group[source] and parent[source] == -1
        assert streams.mask[source, first] and streams.mask[n, first]
        for name in ("reward", "mask", "anchor", "valid", "cost"):
            values = getattr(streams, name)
            np.testing.assert_array_equal(values[n, :first], values[source, :first])
        # What the first own turn is acted from is the same, too.
        np.testing.assert_array_equal(streams.anchor[n, first], streams.anchor[source, first])
        one, other = (_written(rows, stream) for stream in (n, source))
        assert [w for w in one if w[0] < first] == [w for w in other if w[0] < first]
        differ += one != other
    assert differ > branch.size // 2
    # With a probability of 1 the k-th copy branches at turn k, if the episode had that turn.
    length = streams.mask.sum(axis=1).reshape(GROUPS, SIZE)[:, :INITIAL]
    for copy in range(1, SIZE // INITIAL):
        own = turn.reshape(GROUPS, -1, INITIAL)[:, copy]
        np.testing.assert_array_equal(own, np.where(length > copy, copy, -1))
    np.testing.assert_array_equal(metrics["branch_rate"], [branch.size, GROUPS * SIZE])
    # Tokens are those that were sampled: shared turns once.
    copied = np.arange(TURNS) < turn[:, None]
    assert metrics["tokens"][0] == streams.cost[~copied].sum() < streams.cost.sum()
    np.testing.assert_array_equal(
        metrics["shared_turn_rate"], [(copied & streams.mask).sum(), streams.mask.sum()]
    )


def _written(rows, stream):
    """(turn, token, log-probability) of each trained position of a stream."""
    own = np.asarray(rows.loss_mask) & (np.asarray(rows.stream) == stream)[:, None]
    fields = (rows.turn, rows.tokens, rows.behaviour_logp)
    return sorted(zip(*(np.asarray(x)[own].tolist() for x in fields), strict=True))


@pytest.mark.parametrize("context", [rollout.contexts.whole, rollout.contexts.window])
def test_ratios_are_one_before_the_first_update(context):
    experiment, state, streams, rows, _ = collected(context, alpha=1.0, beta=0.0)
    policy = experiment.tasks["FrozenLake-v1"].policy
    logp = jax.jit(lambda params, rows: log_probs(policy, params, rows, None))(state.params, rows)
    trained = np.asarray(rows.loss_mask)
    assert trained[(streams.call_turn >= 0)[np.asarray(rows.stream)]].any()
    np.testing.assert_allclose(
        np.asarray(logp)[trained], np.asarray(rows.behaviour_logp)[trained], atol=2e-5
    )


def test_without_branches_it_collects_groups_of_fresh_episodes():
    _, state, streams, rows, metrics = collected(alpha=0.0, beta=0.0)
    assert (streams.parent == -1).all() and metrics["branch_rate"][0] == 0
    np.testing.assert_array_equal(
        shared_prefix(streams.reward, streams.mask, streams.parent, streams.call_turn),
        streams.reward,
    )
    assert metrics["tokens"][0] == streams.cost.sum()
    # The initial episodes are those of groups of that size, bitwise.
    config = config_of(critic=True)
    config.rollout = section(rollout.episodes, num_groups=GROUPS, group_size=INITIAL)
    plain = build(config).rollout.collect
    _, own, own_rows, _ = jax.jit(plain)(state.params, None, jax.random.key(4))
    initial = (np.arange(GROUPS * SIZE) % SIZE) < INITIAL
    for name in ("reward", "mask", "anchor", "valid", "terminated", "truncated", "cost"):
        np.testing.assert_array_equal(getattr(streams, name)[initial], getattr(own, name))
    np.testing.assert_array_equal(np.asarray(rows.tokens)[initial], own_rows.tokens)
    # The others are as many, of the same tasks, and not copies of these.
    tokens = np.asarray(rows.tokens).reshape(GROUPS, SIZE, -1)
    assert (tokens[:, INITIAL : 2 * INITIAL] != tokens[:, :INITIAL]).any()


def test_branches_start_from_prefixes_of_the_trajectory(monkeypatch):
    """The state in front of a branch point is `prefix` of a trajectory kept with all states."""
    calls = []

    def recorded(*args, keep=keep_turn, **options):
        both = lambda notes, turn: (keep(notes, turn)[0], turn)  # noqa: E731
        calls.append((args[3], unroll(*args, keep=both, **options)))
        kept = keep_turn(None, calls[-1][1].turns)[1]
        return calls[-1][1]._replace(turns=kept)

    monkeypatch.setattr("agentrl.methods.branching.unroll", recorded)
    experiment = build(config_of(alpha=1.0, beta=0.0, group_size=2 * INITIAL))
    state = jax.jit(experiment.init)(0)

    def states(key):
        calls.clear()
        _, streams, *_ = experiment.rollout.collect(state.params, None, key)
        (_, initial), (start, _) = calls
        turn = jnp.where(initial.notes.turn[0] < TURNS, initial.notes.turn[0], 0)
        return streams, turn, start, prefix(initial, turn)

    _, turn, start, expected = jax.jit(states)(jax.random.key(4))
    there = np.asarray(turn) > 0
    assert there.any()

    one, other = ((x.state, x.memory) for x in (start, expected))
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a[there], b[there]), one, other)


def test_branches_have_a_critic_too():
    *_, streams, _, _ = collected(alpha=1.0, beta=0.0)
    values, ends = streams.value, streams.bootstrap
    assert np.isfinite(values).all() and np.isfinite(ends).all()
    for n in np.flatnonzero(streams.call_turn >= 0):
        # The same prompts, the first own one included.
        shared = slice(0, int(streams.call_turn[n]) + 1)
        source = int(streams.parent[n])
        np.testing.assert_allclose(values[n, shared], values[source, shared], atol=1e-6)


def test_what_cannot_branch_is_refused():
    with pytest.raises(ValueError, match="group_size=6, initial=4: expected a multiple"):
        build(config_of(initial=4))
    with pytest.raises(ValueError, match="alpha=2"):
        build(config_of(alpha=2.0))
    config = lake()
    config.rollout = section(branching)
    with pytest.raises(ValueError, match="needs a language policy"):
        build(config)
