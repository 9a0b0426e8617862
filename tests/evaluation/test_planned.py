"""Best-first search and its planner: against a plain search, budgets kept, nothing searched twice.

The policy is a table: of W = 4 replies in a cell of a lake, reply i is action i.
"""

import collections
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import talk_config

import envs
from agentrl import rollout
from agentrl.actors.types import Actor, Decision, no_memory
from agentrl.config import section
from agentrl.config.build import build
from agentrl.evaluation import play
from agentrl.evaluation.best_first import best_first, code_of, priority
from agentrl.evaluation.planned import expert_path, solve, solved_within
from agentrl.rollout.types import Start
from agentrl.rollout.unroll import fresh
from agentrl.trained.searches import SearchOptions, searches
from envs.vector import World

TASKS, NODES, LIMIT, SIZE = 24, 8, 10, 4
ENV, PARAMS = envs.make("FrozenLake-v1", size=SIZE, slippery=False, max_steps_in_episode=LIMIT)
WORLD = World(ENV, PARAMS)
TABLE = np.asarray(jax.nn.log_softmax(2 * jax.random.normal(jax.random.key(0), (SIZE**2, 4))))


def by_table(table, remembers=False):
    def act(params, memory, view, key):
        action = jnp.arange(view.agent.shape[0]) % 4
        return Decision(action[:, None], params[view.state.position, action][:, None]), memory

    return Actor(no_memory, act, table, remembers=remembers, reads_arrays=False)


@functools.cache
def search(power=0.5):
    return jax.jit(best_first(WORLD, by_table, nodes=NODES, width=4, power=power))


@functools.cache
def tasks():
    start = fresh(WORLD, play.task_keys(0, TASKS))
    return Start(start.state, None), np.asarray(code_of(WORLD, start.state, "state"))


@functools.cache
def lakes():
    """(holes bool[16], start, goal) of each task."""
    codes = np.asarray(jax.vmap(ENV.observe, (0, None))(tasks()[0].state, PARAMS))
    flat = codes.reshape(TASKS, -1)
    return [(c == 1, int(np.argmax(c == 3)), int(np.argmax(c == 2))) for c in flat]


def moved(cell, action):
    row, column = divmod(cell, SIZE)
    down, right = ((0, -1), (1, 0), (0, 1), (-1, 0))[action]
    return SIZE * min(max(row + down, 0), SIZE - 1) + min(max(column + right, 0), SIZE - 1)


def plain_search(lake, begin, goal, budget, time=0, power=0.5):
    """(cell that was reached or None, turns to it, nodes) by a list of open nodes."""
    holes, _, end = lake
    if begin in (goal, end):
        return begin, 0, 0
    waiting, known, nodes = [(0.0, begin, np.float32(0), 0)], {begin}, 0
    while waiting and nodes < budget:
        best = max(waiting, key=lambda node: node[0])
        waiting.remove(best)
        _, cell, path, turns = best
        nodes += 1
        for action in range(4):
            new, logp = moved(cell, action), path + TABLE[cell, action]
            if new in (goal, end):
                return new, turns + 1, nodes
            if new in known or holes[new]:
                continue
            known.add(new)
            if time + turns + 1 < LIMIT:
                score = logp / np.float32(turns + 1) ** np.float32(power)
                waiting.append((score, new, logp, turns + 1))
    return None, 0, nodes


def test_priorities_of_the_worked_example():
    path = jnp.sum(jnp.array([-0.1, -2.0, -0.3]))
    found = [priority(path, jnp.int32(3), power) for power in (0.0, 0.5, 1.0)]
    np.testing.assert_allclose(found, [-2.4, -1.385641, -0.8], atol=2e-5)
    assert priority(jnp.float32(0), jnp.int32(0), 1.0) == 0


def test_nodes_and_ends_are_those_of_a_plain_search():
    """Budgets 0 to 8 side by side; goals are another cell of the lake, or only its end."""
    start, _ = tasks()
    budget = np.arange(TASKS) % (NODES + 1)
    goal_cell = [int(np.flatnonzero(~holes)[i % 9]) if i % 2 else -1 for i, (holes, *_) in
                 enumerate(lakes())]  # fmt: skip
    there = start.state.replace(position=jnp.array(goal_cell))
    goal = jnp.where((np.array(goal_cell) >= 0)[:, None], code_of(WORLD, there, "observation"), 0)
    found = jax.device_get(search()(TABLE, start, goal, budget, jax.random.key(1)))
    ends = collections.Counter()
    for i, lake in enumerate(lakes()):
        reached, steps, nodes = plain_search(lake, lake[1], goal_cell[i], budget[i])
        assert (found.reached[i], found.nodes[i]) == (reached is not None, nodes)
        assert nodes <= budget[i]
        if reached is not None:
            assert (found.point.state.position[i], found.steps[i]) == (reached, steps)
            assert found.success[i] == (reached == lake[2])
            assert found.point.state.time[i] == steps
        ends[reached is None, nodes > 0] += 1
    assert min(ends[True, True], ends[False, True]) > 3


@functools.cache
def experts():
    """The expert's action in each cell of each lake, [tasks, cells]."""
    cells = jnp.arange(SIZE**2)
    of_cell = jax.vmap(
        lambda state, cell: ENV.expert(state.replace(position=cell), PARAMS), (None, 0)
    )
    return np.asarray(jax.jit(jax.vmap(of_cell, (0, None)))(tasks()[0].state, cells))


def plain_solve(task, nodes, stride, per_subgoal):
    """(solved, nodes, plans) of one task, by plain loops."""
    lake, expert = lakes()[task], experts()[task]
    cell, time, spent, plans, plan = lake[1], 0, 0, 0, []
    while spent < nodes:
        if not plan:
            path = [cell]
            while path[-1] != lake[2] and len(path) <= LIMIT - time:
                path.append(moved(path[-1], expert[path[-1]]))
            solves = path[-1] == lake[2]
            plan = [*path[stride:-1:stride], None] if solves and stride else [None]
            plans += 1
        budget = min(per_subgoal, nodes - spent)
        reached, steps, used = plain_search(lake, cell, plan[0], budget, time)
        spent += used
        if reached == lake[2]:
            return True, spent, plans
        if reached is None and not used:
            return False, spent, plans
        if reached is None:
            plan, stride = [], -(-stride // 2)
        else:
            cell, time, plan = reached, time + steps, plan[1:]
    return False, spent, plans


def solved(copies=1, **options):
    """(what came of the tasks, each so many times; (state, subgoal, reached) of the searches)."""
    start, codes = tasks()
    start = jax.tree.map(lambda x: jnp.concatenate([x] * copies), start)
    log = []

    def run(point, goal, budget, key):
        found = jax.device_get(search()(TABLE, point, goal, budget, key))
        code = np.asarray(code_of(WORLD, point.state, "state"))
        assert ((budget > 0) | (found.nodes == 0)).all() and (found.nodes <= budget).all()
        for i in np.flatnonzero(budget):
            log.append((code[i].tobytes(), goal[i].tobytes(), bool(found.reached[i])))
        return found

    codes = np.concatenate([codes] * copies)
    return solve(run, start, codes, jax.random.key(2), limit=LIMIT, **options), log


PLANNED = {"nodes": 12, "stride": 4, "per_subgoal": 3}


def planned(copies=1):
    return solved(copies, planner=jax.jit(expert_path(WORLD)), **PLANNED)


def test_solutions_nodes_and_plans_are_those_of_plain_loops():
    done, _ = planned()
    expected = [plain_solve(task, **PLANNED) for task in range(TASKS)]
    np.testing.assert_array_equal(np.transpose([done.solved, done.nodes, done.plans]), expected)
    assert done.solved.any() and (done.plans > 1).any() and not done.shared
    assert (done.nodes <= PLANNED["nodes"]).all()


def test_without_a_planner_it_is_one_search_after_the_other_for_the_end():
    done, _ = solved(nodes=NODES, per_subgoal=NODES)
    expected = [plain_solve(task, NODES, 0, NODES) for task in range(TASKS)]
    np.testing.assert_array_equal(np.transpose([done.solved, done.nodes, done.plans]), expected)
    assert done.solved.any() and not done.solved.all()


def test_what_was_reached_is_shared_and_never_searched_again():
    once, _ = planned()
    twice, log = planned(copies=2)
    reached = [(state, goal) for state, goal, found in log if found]
    assert len(reached) == len(set(reached))
    for i, (state, goal, _) in enumerate(log):
        assert (state, goal, True) not in log[:i]
    # Of two equal tasks each has what either has reached.
    both = twice.solved.reshape(2, TASKS)
    assert (both.any(axis=0) >= once.solved).all()
    assert twice.shared >= len(reached)
    assert (twice.nodes <= PLANNED["nodes"]).all()


def test_a_known_way_that_takes_too_long_is_not_used():
    """A task that one search solves, and the same one turn before the limit, side by side."""
    start, codes = tasks()
    late = Start(start.state.replace(time=start.state.time + LIMIT - 1), None)
    run = functools.partial(search(), TABLE)
    task = next(i for i in range(TASKS) if plain_solve(i, NODES, 0, NODES)[0])
    both = jax.tree.map(
        lambda a, b: jnp.where(jnp.arange(TASKS) % 2, b[task], a[task]), start.state, late.state
    )
    codes = np.broadcast_to(codes[task], codes.shape)
    done = solve(run, Start(both, None), codes, jax.random.key(0), limit=LIMIT, nodes=NODES)
    np.testing.assert_array_equal(done.solved, np.arange(TASKS) % 2 == 0)


def test_attempts_one_after_the_other_within_a_budget():
    length = np.array([[3, 5, 4], [4, 2, 4], [1, 1, 1]])
    success = np.array([[False, True, False], [True, False, True], [False, True, True]])
    np.testing.assert_array_equal(solved_within(length, success, 7), [True, True, False])
    np.testing.assert_array_equal(solved_within(length, success, 4), [False, False, False])


def test_what_cannot_be_searched_is_refused():
    with pytest.raises(ValueError, match="nodes"):
        best_first(WORLD, by_table, nodes=0)
    with pytest.raises(ValueError, match="remembers its earlier turns"):
        best_first(WORLD, functools.partial(by_table, remembers=True), nodes=2)
    game, params = envs.make("TicTacToe-v1")
    with pytest.raises(ValueError, match="one agent"):
        best_first(World(game, params), by_table, nodes=2)
    planner = expert_path(WORLD)
    with pytest.raises(ValueError, match="stride"):
        solve(search(), *tasks(), jax.random.key(0), limit=LIMIT, nodes=2, planner=planner)
    config = talk_config()
    (task,) = build(config).tasks.values()
    with pytest.raises(ValueError, match="remembers its earlier turns"):
        searches(config, task, SearchOptions())


def test_a_policy_in_words_searches_by_its_commands():
    """One expansion of 8 replies, for the cell that the expert enters."""
    config = talk_config(warm_start__updates=0, policy__constrained=True)
    config.env.slippery = False
    config.context = section(rollout.contexts.window, history=0)
    experiment = build(config)
    (task,) = experiment.tasks.values()
    found_by = searches(config, task, SearchOptions(nodes=4, width=8, per_subgoal=1))
    start = fresh(World(task.env, task.env_params), play.task_keys(0, TASKS))
    start = start._replace(observation=None)
    path, turns = found_by.planner(start)
    params = experiment.policy.init(jax.random.key(0))
    budget = np.ones(TASKS, np.int32)
    found = jax.device_get(found_by.part(params, start, path[0], budget, jax.random.key(1)))
    assert found.reached.mean() > 0.5 and (found.nodes == 1).all()
    np.testing.assert_array_equal(found.code, found_by.codes(found.point.state))
    np.testing.assert_array_equal(found.success, found.reached & (np.asarray(turns) == 1))
    np.testing.assert_array_equal(found.steps, found.reached)
    np.testing.assert_array_equal(found.point.state.time, found.reached)
