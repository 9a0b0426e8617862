"""Queries-v1: queries against sqlite3, equality of results, roles and rewards by hand, words."""

import sqlite3

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs
from envs.queries import rules
from envs.text import join

SIGNS = ("=", "<", ">")


def by_sqlite(key, values, query):
    """The values that SQL gives, in its order; None for NULL."""
    aggregate, table, column, other, condition, comparison, value = map(int, query)
    base = sqlite3.connect(":memory:")
    for t in range(3):
        base.execute(f"CREATE TABLE t{t} (k INT, c0 INT, c1 INT)")
        rows = [(int(k), *map(int, v)) for k, v in zip(key[t], values[t], strict=True)]
        base.executemany(f"INSERT INTO t{t} VALUES (?, ?, ?)", rows)
    chosen = ("t.c{}", "COUNT(t.c{})", "MAX(t.c{})")[aggregate].format(column)
    tested = f"t.c{condition}" if table == other else f"u.c{condition}"
    joined = "" if table == other else f"JOIN t{other} u ON t.k = u.k"
    text = f"SELECT {chosen} FROM t{table} t {joined} WHERE {tested} {SIGNS[comparison]} {value}"
    found = [row[0] for row in base.execute(text)]
    base.close()
    return None if found == [None] else found


def test_results_are_those_of_sqlite():
    rng, number = np.random.default_rng(0), 300
    # Keys repeat, so that joins multiply rows.
    key, values = rng.integers(0, 5, (number, 3, 6)), rng.integers(0, 5, (number, 3, 6, 2))
    queries = np.stack([rng.integers(0, n, number) for n in (3, 3, 2, 3, 2, 3, 5)], axis=1)
    tables = rules.Tables(jnp.asarray(key), jnp.asarray(values))
    asked = rules.Query(*jnp.asarray(queries.T))
    found = jax.jit(jax.vmap(rules.run))(tables, asked)
    joins = 0
    for i in range(number):
        expected = by_sqlite(key[i], values[i], queries[i])
        assert bool(found.fails[i]) == (expected is None)
        if expected is None:
            continue
        listed = [int(v) for v in np.asarray(found.values[i]) if v >= 0]
        if queries[i][1] == queries[i][3]:
            assert listed == expected
        else:
            joins += 1
            assert sorted(listed) == sorted(expected)
    assert joins > 100


@pytest.mark.parametrize(
    "first, second, default, ordered, as_sets, ordered_sets",
    [
        ([3, 1, 1], [1, 3, 1], True, False, True, False),
        # What a comparison of sets takes for right, as MARS-SQL's released code does.
        ([3, 1, 1], [3, 1], False, False, True, True),
        ([3, 1], [3, 2], False, False, False, False),
        ([], [], True, True, True, True),
    ],
)
def test_equality_of_results(first, second, default, ordered, as_sets, ordered_sets):
    def of(values):
        padded = np.full(4, -1, np.int32)
        padded[: len(values)] = values
        return rules.Result(jnp.asarray(padded), jnp.zeros((), bool))

    a, b = of(first), of(second)
    assert bool(rules.equal(a, b)) == default
    assert bool(rules.equal(a, b, ordered=True)) == ordered
    assert bool(rules.equal(a, b, duplicates=False)) == as_sets
    assert bool(rules.equal(a, b, ordered=True, duplicates=False)) == ordered_sets
    assert not rules.equal(a, a._replace(fails=jnp.ones((), bool)))


def test_rewards_and_a_gold_query_that_fails():
    yes, no = jnp.ones((), bool), jnp.zeros((), bool)
    cases = [(yes, no, no), (no, no, no), (no, yes, no)]
    assert [float(rules.outcome(*case)) for case in cases] == [-1, 0, 1]
    assert [float(rules.outcome(*case[:2], yes)) for case in cases] == [0, 0, 0]


@pytest.fixture(scope="module")
def world():
    env, params = envs.make("Queries-v1", joins=False)
    step = jax.jit(env.step_env)

    def act(state, action):
        _, state, reward, over, info = step(
            jax.random.key(0), state, jnp.full(3, action, jnp.int32), params
        )
        return state, np.asarray(reward).tolist(), bool(over), np.asarray(info["success"])

    return env, params, act


def told(env, state, params, agent):
    return join(env.view.lexicon, env.view.describe(state, params, agent))


def test_an_episode_by_hand(world):
    env, params, act = world
    _, state = env.reset(jax.random.key(3), params)
    task = state.task
    # The expert begins with the rival in which nothing is found.
    wrong = int(jnp.argmax(task.rivals & (np.arange(3) != task.gold.other)))
    state = state.replace(task=task._replace(first=jnp.int32(wrong)))
    text = told(env, state, params, 0)
    assert text.startswith("tables ") and len(text.partition(";")[2].split()) == 12
    state, reward, *_ = act(state, env.expert(state, params))
    assert reward == [0, 0, 0] and np.asarray(state.picked).tolist() == task.rivals.tolist()
    assert len(told(env, state, params, 1).partition(";")[2].split()) == 8
    run = int(env.expert(state, params))
    state, reward, *_ = act(state, run)
    assert reward == [0, 0, 0] and int(env.status(state)) in (1, 2)
    assert told(env, state, params, 1).endswith((" nothing", " failed", " gave 0"))
    answer = int(env.expert(state, params))
    assert answer >= 7 + env.num_queries
    right, reward, over, _ = act(state, answer)
    assert reward == [1, 1, 0] and not over
    assert told(env, right, params, 2).startswith("check ")
    yes, no = env.num_actions - 2, env.num_actions - 1
    assert int(env.expert(right, params)) == yes
    ends, reward, over, success = act(right, yes)
    assert reward == [0, 0, 1] and over and success.all()
    # The query in which nothing was found as an answer, and the verdicts on it.
    state, reward, *_ = act(state, run + env.num_queries)
    assert reward == [0, 0, 0]
    assert act(state, yes)[1] == [0, 0, 0] and act(state, no)[1] == [0, 0, 1]
    assert not act(state, no)[3].any()
    # Malformed: a verdict by the generator. A malformed verdict is the validator's alone.
    assert act(state, 0)[1] == [0, 0, -1]


def test_malformed_and_missing_answers(world):
    env, params, act = world
    _, first = env.reset(jax.random.key(4), params)
    state, *_ = act(first, 6)
    assert act(state, env.num_actions - 1)[1:3] == ([-1, -1, -1], True)
    run = int(env.expert(state, params))
    for turn in range(env.turns):
        assert told(env, state, params, 1).endswith(" last") == (turn == env.turns - 1)
        state, reward, over, _ = act(state, run)
    assert reward == [-1, -1, 0] and over
    # A query on tables that were not picked fails.
    gold = first.task.gold
    state, *_ = act(first, int(1 << int(gold.other)) - 1)
    action = 7 + env.num_queries + int(env.index_of(gold))
    assert act(state, action)[1] == [1, 1, 0]
    state, *_ = act(first, int(7 - (1 << int(gold.other))) - 1)
    state, reward, *_ = act(state, action)
    assert reward == [0, 0, 0] and told(env, state, params, 2).endswith(" failed")


def test_grounding_is_paid_by_recall():
    env, params = envs.make("Queries-v1", grounding="recall", joins=False)
    _, state = env.reset(jax.random.key(0), params)
    picks = jnp.repeat(jnp.arange(7)[:, None], 3, axis=1)
    step = jax.jit(jax.vmap(lambda x: env.step_env(jax.random.key(0), state, x, params)[2]))
    needed = np.asarray(env.needed(state))
    for pick, reward in enumerate(np.asarray(step(picks)).tolist()):
        chosen = np.array([(pick + 1) >> t & 1 for t in range(3)], bool)
        own = (chosen & needed).sum() - 0.25 * (chosen & ~needed).sum()
        assert reward == [own, 0, 0]


@pytest.mark.parametrize("turns, share", [(1, 0.5), (5, 1.0)])
def test_the_expert_and_tasks_whose_gold_query_fails(turns, share):
    env, params = envs.make("Queries-v1", turns=turns, failing=0.25)

    def play(key):
        _, state = env.reset_env(key, params)
        fails = state.hopeless

        def step(state, _):
            action = jnp.full(3, env.expert(state, params))
            _, state, reward, _, info = env.step_env(key, state, action, params)
            return state, (reward, info["valid"].all())

        state, (reward, valid) = jax.lax.scan(step, state, length=7)
        return fails, reward.sum(axis=0), state.right, valid.all()

    fails, reward, right, valid = jax.jit(jax.vmap(play))(jax.random.split(jax.random.key(1), 512))
    fails, reward, right = map(np.asarray, (fails, reward, right))
    assert np.asarray(valid).all() and 0.2 < fails.mean() < 0.3
    assert not right[fails].any() and not reward[fails].any()
    assert (reward[~fails, 2] == 1).all() and (reward[~fails, 1] == right[~fails]).all()
    assert abs(right[~fails].mean() - share) < (0.08 if turns == 1 else 1e-6)
