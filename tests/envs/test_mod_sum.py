"""ModSum-v1: worked numbers, the closed form against play, and graphs by hand."""

import jax
import numpy as np
import playing
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import fetched

import envs
from envs.mod_sum import rules
from envs.mod_sum.rules import REFLECT, SOLO, VERIFY, VOTE, Graph, Workers

KEY = jax.random.key(0)
accuracy, chances = fetched(rules.accuracy), fetched(rules.chances)
shares = fetched(rules.shares, static_argnums=2)
OPTIONS = {"nodes": (6, 12), "parts": (1, 3), "breadth": 3, "chained": 0.5, "tampered": (0, 2)}


def graph(count, edges=None, size=12, tampered=()):
    """A chain of `count` nodes, or what `edges` says."""
    pairs = [(i, i + 1) for i in range(count - 1)] if edges is None else edges
    table = np.zeros((size, size), bool)
    for i, j in pairs:
        table[i, j] = True
    constants = np.arange(size) % 7
    shown = constants.copy()
    shown[list(tampered)] += 1
    return Graph(table, constants.astype(np.int32), shown.astype(np.int32), np.int32(count))


@pytest.mark.parametrize(
    ("nodes", "team", "expected"),
    [
        *((3, 1, 0.941192), (3, 3, 0.922462), (6, 1, 0.566939), (6, 2, 0.876984)),
        *((6, 3, 0.868214), (12, 1, 0.131654), (12, 2, 0.318206), (12, 3, 0.769101)),
        (12, 4, 0.761410),
    ],
)
def test_the_worked_numbers(nodes, team, expected):
    found = accuracy(graph(nodes), np.int32(team), np.int32(SOLO), Workers())
    assert float(found) == pytest.approx(expected, abs=2e-6)


def test_kinds_and_costs_by_hand():
    team, task = np.int32(2), graph(4)
    workers = Workers(right=0.9, handed=1.0, checker=0.8, call=1.0, operation=0.5)
    told = {}
    for kind in range(4):
        chance, handed, cost = chances(task, team, np.int32(kind), workers)
        told[kind] = float(chance[0]), float(cost)
        assert int(handed) == 1 and np.all(np.asarray(chance)[4:] == 1)
    complaint = 0.9 * 0.2 + 0.1 * 0.8
    expected = {
        SOLO: (0.9, 2 + 2),
        VOTE: (0.9**3 + 3 * 0.9**2 * 0.1, 6 + 6),
        REFLECT: (0.9 * 0.8 + 0.9 * 0.2 * 0.9 + 0.1 * 0.8 * 0.9, 2 + 2 * (1 + complaint)),
        VERIFY: (0.9, 4 + 2),
    }
    for kind, pair in expected.items():
        assert told[kind] == pytest.approx(pair, abs=1e-5)
    # Who does not verify believes a tampered constant.
    doubtful = graph(4, tampered=(1,))
    found = [float(accuracy(doubtful, team, np.int32(k), workers)) for k in range(4)]
    assert found[:3] == [0, 0, 0] and found[VERIFY] == pytest.approx(0.9**4, abs=1e-5)


def test_axes_and_values_by_hand():
    task = graph(5, [(0, 2), (1, 2), (2, 3)])
    axes = {name: int(x) for name, x in fetched(rules.axes)(task).items()}
    assert axes == {"depth": 3, "horizon": 5, "breadth": 2, "parallel": 2, "robustness": 0}
    # 0, 1, 2 + 0 + 1, 3 + 3, 4.
    assert fetched(rules.values, static_argnums=1)(task, 7)[:5].tolist() == [0, 1, 3, 6, 4]
    # Separate parts hand nothing over.
    apart = graph(4, [(0, 1), (2, 3)])
    assert int(chances(apart, np.int32(2), np.int32(SOLO), Workers())[1]) == 0


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 12), st.integers(1, 4))
def test_runs_are_equal_and_in_order(count, parts):
    part, place = (np.asarray(x)[:count] for x in shares(count, np.int32(parts), 12))
    sizes = np.bincount(part, minlength=parts)
    assert sizes.sum() == count and sizes.max() - sizes.min() <= 1
    assert (np.diff(part) >= 0).all() and (np.diff(sizes) <= 0).all()
    assert place.tolist() == [k for n in sizes for k in range(n)]


def test_tasks_are_what_the_options_say():
    env, params = envs.make("ModSum-v1", **OPTIONS)
    states = playing.starts(env, params, 512)
    axes = fetched(jax.vmap(rules.axes))(states.graph)
    assert set(axes["horizon"].tolist()) == set(range(6, 13))
    assert set(axes["robustness"].tolist()) == {0, 1, 2}
    assert set(axes["breadth"].tolist()) <= {1, 2, 3} and axes["breadth"].max() == 3
    # Every later node of a part has a parent in it: parts are what is not connected.
    assert set(axes["parallel"].tolist()) == {1, 2, 3}
    assert (axes["depth"] >= 2).all() and (axes["depth"] <= axes["horizon"]).all()
    edges = np.asarray(states.graph.edges)
    assert not np.tril(edges).any()


def test_play_meets_the_closed_form():
    """Every team, on tasks of all kinds: mean success within 4 standard errors."""
    env, params = envs.make("ModSum-v1", **OPTIONS, handed=0.9, right=0.95)
    states = playing.starts(env, params, 2048)

    def of(action, keys):
        step = jax.vmap(env.step_env, in_axes=(0, 0, None, None))
        chance = jax.vmap(lambda s: env.expected(s, params)[0][action])(states)
        legal = jax.vmap(lambda s: env.legal(s, params)[action])(states)
        return step(keys, states, action, params)[4]["success"], chance, legal

    program = jax.jit(of)
    for action in range(env.num_actions):
        keys = jax.random.split(jax.random.fold_in(KEY, action), 2048)
        success, chance, legal = (np.asarray(x) for x in program(np.int32(action), keys))
        error = np.sqrt((chance * (1 - chance))[legal].sum()) / legal.sum()
        assert abs((success - chance)[legal].mean()) < 4 * error + 1e-9
        assert not success[~legal].any()


def test_the_best_team_grows_with_the_task():
    env, params = envs.make("ModSum-v1", nodes=(12, 12))
    state = jax.device_get(env.reset(KEY, params)[1])
    team_of = fetched(lambda task, params: env.team(env.expert(task, params)))

    def best(count, **changes):
        task = state.replace(graph=graph(count))
        team, kind = team_of(task, params.replace(**changes))
        return int(team), rules.KINDS[int(kind)]

    # Cost counts, so that the cheap kind is chosen.
    found = [best(n, price=0.002)[0] for n in (3, 6, 12)]
    assert found == [1, 2, 3]
    assert best(12, right=1.0, tired=1.0, price=0.01) == (1, "solo")
    assert best(12, low=True)[0] == 1
    assert fetched(env.legal)(state, params.replace(low=True)).sum() == 4
