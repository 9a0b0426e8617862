"""Trees of turns: against a plain search, forks bitwise as unforked episodes, what is paid once."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiments import lake
from tiny import talk_config

from agentrl import advantages, rollout
from agentrl.config import env_section, section
from agentrl.config.build import build
from agentrl.learner.passes import log_probs
from agentrl.methods import tree_rules
from agentrl.methods.by_turn import stream_rows
from agentrl.methods.tree_values import prefixes, tree_values
from agentrl.methods.trees import point_of, trees
from agentrl.rollout.episodes import episodes
from agentrl.rollout.seating import seat_all
from agentrl.rollout.unroll import fresh, keep_turn, unroll

GROUPS, SIZE, TURNS = 3, 8, 5
WHOLE, WINDOW = rollout.contexts.whole, rollout.contexts.window


def config_of(context=None, function=trees, **options):
    """A lake in words, or over arrays where there is no context."""
    talks = functools.partial(talk_config, warm_start__updates=0, policy__constrained=True)
    config = lake() if context is None else talks()
    config.env.max_steps_in_episode = TURNS
    config.rollout = section(function, num_groups=GROUPS, group_size=SIZE, **options)
    if context is not None:
        config.context = section(context)
    config.advantage = section(advantages.grpo)
    config.learner.minibatches = 1
    return config


@functools.cache
def collected(context=None, function=trees, **options):
    """(experiment, state, streams, rows, metrics) of a first collection."""
    experiment = build(config_of(context, function, **options))
    state = jax.jit(experiment.init)(0)
    _, *found = jax.jit(experiment.rollout.collect)(state.params, None, jax.random.key(4))
    return experiment, state, *jax.tree.map(np.asarray, found)


class Node:
    """A node of the plain search, the turn that led to it, and the episode that came first."""

    def __init__(self, logp=0.0, number=0):
        self.kids, self.returns, self.logp, self.number = {}, [], np.float32(logp), number

    @property
    def visits(self):
        return len(self.returns)

    @property
    def value(self):
        return np.float32(sum(self.returns) / len(self.returns))


def open_nodes(node, width, path=(), logp=0.0):
    """(path, node, log-likelihood of the path) of those with few children, without ends."""
    if node.kids and len(node.kids) < width:
        yield path, node, logp
    for action, kid in node.kids.items():
        yield from open_nodes(kid, width, (*path, action), logp + kid.logp)


def plain_choice(rule, root, width, c):
    """The path to the node that the next episode starts from."""
    if rule in ("uct", "puct"):
        node, path = root, ()
        while True:
            inner = {a: k for a, k in node.kids.items() if k.kids}
            if len(node.kids) < width or not inner:
                return path
            total = sum(math.exp(k.logp) for k in node.kids.values())

            def score(kid, node=node, total=total):
                if rule == "uct":
                    return kid.value + c * math.sqrt(math.log(node.visits) / kid.visits)
                prior = math.exp(kid.logp) / total
                return kid.value + c * prior * math.sqrt(node.visits) / (1 + kid.visits)

            action = max(inner, key=lambda a: score(inner[a]))
            node, path = inner[action], (*path, action)
    score = {
        "breadth": lambda path, node, logp: 0.0,
        "best_value": lambda path, node, logp: float(node.value),
        "best_first": lambda path, node, logp: logp / max(len(path), 1),
    }[rule]
    found = sorted(open_nodes(root, width), key=lambda x: (len(x[0]), x[1].number))
    return max(found, key=lambda x: score(*x), default=((), None, 0))[0]


def walk(codes, actions):
    """The rewards of a lake of codes [3, 3] (1 holes, 2 the goal, 3 the player)."""
    row, column = np.argwhere(codes >= 3)[0]
    moves = ((0, -1), (1, 0), (0, 1), (-1, 0))
    for action in actions:
        row, column = np.clip([row + moves[action][0], column + moves[action][1]], 0, 2)
        cell = codes[row, column]
        yield 1.0 if cell == 2 else 0.0
        if cell in (1, 2):
            return


def long(*values):
    return [pytest.param(value, marks=pytest.mark.long) for value in values]


@pytest.mark.parametrize("rule", ["breadth", "puct", *long("uct", "best_first", "best_value")])
def test_a_tree_is_that_of_a_plain_search(rule):
    """The same nodes are chosen, visited as often and worth as much, given the same actions."""
    width, c = 2, 0.7
    *_, streams, rows, metrics = collected(rule=rule, width=width, exploration=c)
    rows = jax.tree.map(np.asarray, stream_rows(rows, streams))
    reward, mask = streams.reward, streams.mask
    found = tree_values(reward, mask, streams.group, streams.prefix)
    chosen, distinct = [], 0
    for first in range(0, GROUPS * SIZE, SIZE):
        root, paths = Node(), []
        for n in range(first, first + SIZE):
            path = plain_choice(rule, root, width, c) if paths else ()
            length = mask[n].sum()
            actions = tuple(rows.tokens[n, :length].tolist())
            assert actions[: len(path)] == path and len(path) == max(streams.call_turn[n], 0)
            rewards = list(walk(rows.observation[first, 0], actions))
            np.testing.assert_array_equal(reward[n, :length], rewards)
            node = root
            node.returns.append(sum(rewards))
            for t, action in enumerate(actions):
                kid = Node(rows.behaviour_logp[n, t], n)
                node = node.kids.setdefault(action, kid)
                distinct += node is kid
                node.returns.append(sum(rewards[t:]))
            paths.append(actions)
            chosen.append(len(path))
        for n, actions in enumerate(paths, first):
            node = root
            for t, action in enumerate(actions):
                assert found.node_visits[n, t] == node.visits
                assert found.children[n, t] == len(node.kids)
                node = node.kids[action]
                assert found.visits[n, t] == node.visits
                np.testing.assert_allclose(found.turn[n, t], node.value, rtol=1e-6)
    assert max(chosen) > 0
    copied = np.arange(TURNS) < streams.call_turn[:, None]
    own = (mask & ~copied).sum()
    np.testing.assert_array_equal(metrics["new_turn_rate"], [distinct, own])
    np.testing.assert_array_equal(metrics["sampled_turns"], [own, 1])


def test_uniform_draws_every_node_as_often():
    """Draws in n equal parts of [0, 1) find each of n nodes once, the shallow ones first; the next
    episode of the same tree starts a node further, the one after the last at the root."""
    acted = np.array([[True, True, True], [True, True, False], [False, False, False]])
    # The episodes part behind turn 0: nodes at the root, after turn 0, and after 0's second turn.
    prefix = np.array([[0, 0, 0], [0, 1, -1], [-1, -1, -1]])
    found = tree_values(np.zeros((3, 3)), acted, np.zeros(3, int), prefix)
    tree = tree_rules.tree_of(found, jnp.asarray(acted), jnp.asarray(prefix), jnp.zeros((3, 3)))
    options = tree_rules.Options(2, 1.0, 1.0)
    nodes = [(0, 0), (0, 1), (0, 2)]
    for n in range(3):
        for place in (0.01, 0.5, 0.99):
            at, turn = tree_rules.chosen(tree, "uniform", options, (n + place) / 3, 2)
            here = list(zip(at.tolist(), turn.tolist(), strict=True))
            assert here == [nodes[n], nodes[(n + 1) % 3]]


def test_values_worked_example():
    """Streams 0 and 1 share turn 0; stream 2 is alone in its tree."""
    reward = np.array([[0, 1.0], [0, 0], [2, 4.0]], np.float32)
    mask, group = np.ones((3, 2), bool), np.array([0, 0, 1])
    prefix = np.array([[0, 0], [0, 1], [2, 2]])
    found = tree_values(reward, mask, group, prefix, gamma=0.5)
    np.testing.assert_allclose(found.turn, [[0.25, 1], [0.25, 0], [4, 4]])
    np.testing.assert_allclose(found.node, [[0.25, 0.5], [0.25, 0.5], [4, 4]])
    np.testing.assert_array_equal(found.visits, [[2, 1], [2, 1], [1, 1]])
    np.testing.assert_array_equal(found.node_visits, [[2, 2], [2, 2], [1, 1]])
    np.testing.assert_array_equal(found.children, [[1, 2], [1, 2], [1, 1]])
    np.testing.assert_array_equal(found.first, [[True, True], [False, False], [True, True]])
    # Padding is not read, and equal codes behind different turns are different turns.
    code = np.array([[1, 5], [2, 5], [1, 5], [1, 7]], np.uint32)[..., None].repeat(2, axis=-1)
    acted = np.array([[True, True], [True, True], [True, True], [True, False]])
    np.testing.assert_array_equal(prefixes(code, acted, 4), [[0, 0], [1, 1], [0, 0], [0, -1]])
    poisoned = tree_values(
        np.where(acted, 1.0, np.nan), acted, np.zeros(4, int), prefixes(code, acted, 4)
    )
    assert all(np.isfinite(x).all() for x in poisoned)


@pytest.mark.parametrize("context", [None, *long(WHOLE, WINDOW)])
def test_root_is_plain_group_sampling(context):
    *_, streams, rows, metrics = collected(context, rule="root", together=SIZE)
    *_, plain, plain_rows, plain_metrics = collected(context, episodes)
    assert (streams.parent == -1).all() and (streams.call_turn == -1).all()
    streams = streams.replace(parent=None, call_turn=None, prefix=None)
    jax.tree.map(np.testing.assert_array_equal, (streams, rows), (plain, plain_rows))
    for name, value in plain_metrics.items():
        np.testing.assert_array_equal(metrics[name], value)


@pytest.mark.parametrize("context", [None, WHOLE, *long(WINDOW)])
def test_a_fork_continues_bitwise_as_an_unforked_episode(context):
    """From what is kept in front of a turn and the end's memory, with the same keys."""
    experiment, state, *_ = collected(context, rule="root", together=SIZE)
    (plan,) = experiment.rollout.collect.args
    world = plan.world
    actor = plan.bound.actor(world, state.params)
    keys = jax.random.split(jax.random.key(1), 6)
    start = fresh(world, keys)
    if context is not None:
        start = start._replace(observation=None)
    seating = seat_all(world.env, 6)

    def keep(notes, turn):
        return notes, (keep_turn(notes, turn)[1], point_of(actor, turn.before))

    def both(start):
        play = functools.partial(
            unroll, world, [actor], seating, key=jax.random.key(2), length=TURNS, early_exit=True
        )
        whole = play(start=start, keep=keep)
        turns, points = whole.turns
        _, past = actor.split(whole.final.memory[0])
        forks = []
        for t in (1, 3):
            point = jax.tree.map(lambda x, t=t: x[t], points)
            begin = point._replace(
                memory=(actor.join(point.memory[0], past),),
                running=jnp.sum(turns.running, axis=0) > t,
            )
            forks.append(play(start=begin, taken=t, limit=TURNS))
        return turns, whole.final, forks

    turns, final, forks = jax.jit(both)(start)
    for t, fork in zip((1, 3), forks, strict=True):
        there = np.asarray(turns.running)[t:]
        assert there[0].any()
        np.testing.assert_array_equal(np.asarray(fork.turns.running)[: TURNS - t], there)

        def equal(one, other, t=t, there=there):
            one, other = np.asarray(one)[: TURNS - t], np.asarray(other)[t:]
            np.testing.assert_array_equal(one[there], other[there])

        jax.tree.map(equal, fork.turns, turns)
        # Slots of the cache behind an episode's length are never read.
        alive = there[0]
        ends = (fork.final.state, fork.final.memory[0]), (final.state, final.memory[0])
        if context is WHOLE:
            ends = [(s, m.turn, m.cache.length) for s, m in ends]
        jax.tree.map(
            lambda a, b, alive=alive: np.testing.assert_array_equal(a[alive], b[alive]), *ends
        )


@pytest.mark.parametrize("context", [None, WHOLE, *long(WINDOW)])
def test_leaves_share_prefixes_and_have_a_ratio_of_one(context):
    options = {"rule": "uct", "width": 2, "together": 2}
    experiment, state, streams, rows, metrics = collected(context, **options)
    branch = np.flatnonzero(streams.call_turn >= 0)
    assert branch.size
    for n in branch:
        source, first = streams.parent[n], streams.call_turn[n]
        assert streams.group[n] == streams.group[source] and source < n and first > 0
        assert streams.mask[source, first] and streams.mask[n, first]
        for name in ("reward", "mask", "anchor", "valid", "prefix"):
            values = getattr(streams, name)
            np.testing.assert_array_equal(values[n, :first], values[source, :first])
        np.testing.assert_array_equal(streams.anchor[n, first], streams.anchor[source, first])
    # Each turn is counted once, by the episode that sampled it.
    copied = np.arange(TURNS) < streams.call_turn[:, None]
    assert metrics["sampled_turns"][0] == (streams.mask & ~copied).sum()
    if context is not None:
        assert metrics["tokens"][0] == streams.cost[~copied].sum() < streams.cost.sum()
    policy = experiment.tasks["FrozenLake-v1"].policy
    logp = jax.jit(lambda params, rows: log_probs(policy, params, rows, None))(state.params, rows)
    trained = np.asarray(rows.loss_mask)
    assert trained[(streams.call_turn >= 0)[np.asarray(rows.stream)]].any()
    np.testing.assert_allclose(
        np.asarray(logp)[trained], np.asarray(rows.behaviour_logp)[trained], atol=2e-5
    )


@pytest.mark.parametrize(
    "options",
    [
        {"rule": "uct", "together": 2},
        {"rule": "best_first", "together": 4},
        *long(
            {"rule": "uct"},
            {"rule": "puct", "width": 3},
            {"rule": "breadth", "together": 2},
            {"rule": "uniform"},
        ),
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_lanes_are_computed_for_little_more_than_is_sampled(options):
    """A round takes as long as its longest episode, without the turns in front of its node; that
    is at most 1.2 times what is sampled."""
    config = config_of(**options)
    config.env = env_section("Coin-v1", max_steps_in_episode=12)
    config.rollout.num_groups = groups = 16
    experiment = build(config)
    params = jax.jit(experiment.init)(0).params
    _, streams, _, metrics = jax.jit(experiment.rollout.collect)(params, None, jax.random.key(4))
    own = np.asarray(streams.mask).sum(axis=1) - np.maximum(streams.call_turn, 0)
    together = options.get("together", 1)
    longest = own.reshape(groups, SIZE // together, together).max(axis=(0, 2))
    lanes = longest.sum() * groups * together
    np.testing.assert_array_equal(metrics["lane_use"], [own.sum(), lanes])
    assert lanes <= 1.2 * own.sum()


def test_what_cannot_grow_is_refused():
    with pytest.raises(ValueError, match="group_size=8, together=3: expected a multiple"):
        build(config_of(together=3))
    with pytest.raises(ValueError, match="rule='uctt' .did you mean 'uct'"):
        build(config_of(rule="uctt"))
    with pytest.raises(ValueError, match="width=0"):
        build(config_of(width=0))
