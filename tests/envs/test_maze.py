"""Maze: LMRL-Gym's layouts and optimal moves, and random mazes against plain Python."""

import collections
import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import playing
import pytest
import recorded

from envs.maze import rules
from envs.maze.env import MazeState

RECORDED = recorded.load("maze_lmrl")
COMMANDS = [f"move {way}\n" for way in ("up", "down", "left", "right")]


functions = functools.partial(playing.functions, "Maze-v1")


def test_it_fails_at_its_limit_and_spells_digits_apart():
    options = {"layout": "double_t", "sight": "position", "max_steps_in_episode": 2}
    options["wording"] = "faithful"
    env, params, reset, step = functions(**options)
    tell = playing.teller("Maze-v1", **options)
    read = playing.reader("Maze-v1", **options)
    # Row 1 of the maze ends with two cells of column 10 and 11.
    state = reset(playing.KEY).replace(position=jnp.uint8(1 * 13 + 11))
    goal, here = "The goal is at position 8, 6. ", "Your current position is at position "
    assert tell(state) == (
        f"{goal}{here}1, 1 1. There are walls to your right, above you, below you.\n"
    )
    _, state, *_ = step(state, read("move left\n", state))
    assert tell(state) == f"{goal}{here}1, 1 0. There are walls above you, below you.\n"
    _, state, reward, terminated, _ = step(state, read("move left\n", state))
    assert (tell(state), float(reward), bool(terminated)) == ("Failure\n", -1.0, False)
    assert bool(env.is_truncated(state, params))


def breadth_first(walls, goal):
    """Moves to the goal (a flat cell) from every cell that has a way, by plain search."""
    cols = walls.shape[1]
    distance, queue = {goal: 0}, collections.deque([goal])
    while queue:
        cell = queue.popleft()
        for there in (cell - cols, cell + cols, cell - 1, cell + 1):
            if not walls.flat[there] and there not in distance:
                distance[there] = distance[cell] + 1
                queue.append(there)
    return distance


def test_layouts_and_the_table_of_optimal_moves():
    walls, goal = rules.layout("double_t")
    np.testing.assert_array_equal(walls, np.array(RECORDED["mazes"]["double_t"]) == 1)
    distance = np.asarray(rules.distances(jnp.asarray(walls), goal))
    assert len(RECORDED["optimal"]) == (~walls).sum() - 1
    env, params, reset, _ = functions(layout="double_t")
    state = reset(jax.random.key(0))
    expert = jax.jit(lambda cell: env.expert(state.replace(position=cell), params))
    for place, command in RECORDED["optimal"].items():
        row, col = map(int, re.findall(r"\d+", place))
        down, right = rules.MOVES[COMMANDS.index(command)]
        assert distance[row + down, col + right] == distance[row, col] - 1
        # One way between any two cells, so that only one move is optimal.
        assert COMMANDS[int(expert(jnp.uint8(row * 13 + col)))] == command
    visited = [
        tuple(place)
        for episode in RECORDED["episodes"]
        if episode["maze"] == "umaze"
        for place in (episode["start"], *(step["pos"] for step in episode["steps"]))
    ]
    assert set(visited) == set(map(tuple, np.argwhere(~rules.layout("umaze")[0]).tolist()))


@functools.cache
def mazes(rows, cols):
    keys = jax.random.split(jax.random.key(0), 1000)
    return np.asarray(jax.jit(jax.vmap(lambda key: rules.carve(key, rows, cols)))(keys))


@pytest.mark.parametrize("rows, cols", [(3, 5), (9, 9), (13, 7), (13, 13)])
def test_random_mazes_are_perfect(rows, cols):
    nodes = (rows // 2) * (cols // 2)
    for walls in mazes(rows, cols)[:64]:
        assert walls[0].all() and walls[-1].all() and walls[:, 0].all() and walls[:, -1].all()
        assert not walls[1::2, 1::2].any() and walls[2:-1:2, 2:-1:2].all()
        # A spanning tree of the nodes: all can be reached through one passage less.
        assert (~walls).sum() == nodes + nodes - 1
        assert len(breadth_first(walls, cols + 1)) == 2 * nodes - 1


def test_mazes_are_too_many_to_learn_by_heart():
    # A 4 x 4 grid has 100 352 spanning trees. Were all equally likely, 1000 draws would hold about
    # 1000^2 / 2 / 100 352 = 5 equal pairs.
    drawn = mazes(9, 9)
    assert len(np.unique(drawn.reshape(1000, -1), axis=0)) > 985


def test_kruskal_on_small_graphs():
    # Four nodes in a ring: the passage that comes last in the order is left closed.
    drawn = mazes(5, 5)
    closed = np.stack([drawn[:, 1, 2], drawn[:, 2, 1], drawn[:, 3, 2], drawn[:, 2, 3]])
    assert np.all(closed.sum(axis=0) == 1)
    np.testing.assert_allclose(closed.mean(axis=1), 1 / 4, atol=0.05)
    # Two such rings share the middle one of seven passages. It is left closed if the three others
    # of one ring all come before it: 1/4 + 1/4 - 1/7 (all six of both) = 5/14.
    drawn = mazes(5, 7)
    np.testing.assert_allclose(drawn[:, 2, 3].mean(), 5 / 14, atol=0.05)


@pytest.mark.parametrize("options", [{"size": (5, 5)}, {"layout": "umaze"}])
def test_start_and_goal_are_different_uniform_free_cells(options):
    env, params, *_ = functions(**options)
    states = playing.starts(env, params, 4000)
    unpack = jax.jit(jax.vmap(lambda bits: rules.unpack(bits, 5)))
    walls = np.asarray(unpack(states.walls)).reshape(-1, 25)
    start, goal = np.asarray(states.position), np.asarray(states.goal)
    episode = np.arange(4000)
    assert np.all(start != goal) and not walls[episode, start].any()
    assert not walls[episode, goal].any()
    # Both have seven free cells; the first node, top left, is one of them in every maze.
    if env.layout == "random":
        np.testing.assert_allclose([(start == 6).mean(), (goal == 6).mean()], 1 / 7, atol=0.02)
    else:
        assert np.all(goal == 3 * 5 + 3)
        np.testing.assert_allclose((start == 6).mean(), 1 / 6, atol=0.02)


def test_expert_takes_a_shortest_way_from_everywhere():
    env, params, *_ = functions()
    states = playing.starts(env, params, 32, seed=1)
    cells = jnp.arange(81, dtype=jnp.uint8)
    expert = jax.vmap(
        lambda s: jax.vmap(lambda c: env.expert(s.replace(position=c), params))(cells)
    )
    chosen = np.asarray(jax.jit(expert)(states))
    walls = jax.vmap(lambda bits: rules.unpack(bits, 9))(states.walls)
    ours = np.asarray(jax.jit(jax.vmap(rules.distances))(walls, states.goal)).reshape(32, 81)
    for task in range(32):
        goal = int(states.goal[task])
        expected = breadth_first(np.asarray(walls[task]), goal)
        assert {cell: int(d) for cell, d in enumerate(ours[task]) if d < 81} == expected
        for cell, distance in expected.items():
            down, right = rules.MOVES[chosen[task][cell]]
            assert cell == goal or expected[cell + down * 9 + right] == distance - 1


@pytest.mark.parametrize("cols", [5, 9, 13])
def test_packed_walls(cols):
    walls = jax.random.bernoulli(jax.random.key(cols), 0.5, (7, cols))
    bits = rules.pack(walls)
    np.testing.assert_array_equal(rules.unpack(bits, cols), walls)
    cells = jnp.arange(7 * cols, dtype=jnp.uint8)
    looked_up = jax.vmap(lambda cell: rules.is_wall(bits, cell, cols))(cells)
    np.testing.assert_array_equal(looked_up, walls.ravel())


def small_maze():
    glyphs = ["#######", "#P..#G#", "###.#.#", "#.....#", "#######"]
    walls = jnp.asarray(np.array([list(row) for row in glyphs]) == "#")
    state = MazeState(jnp.int32(0), rules.pack(walls), jnp.uint8(1 * 7 + 5), jnp.uint8(1 * 7 + 1))
    return "\n".join(glyphs), state


def test_sights_of_a_small_maze():
    glyphs, state = small_maze()
    for sight, length in [("position", 8), ("goal", 6), ("walls", 4)]:
        env, params, *_ = functions(size=(5, 7), sight=sight)
        # Walls above, below and to the left; the goal at (1, 5), the player at (1, 1).
        np.testing.assert_array_equal(
            playing.method(env, "observe")(state, params), [1, 1, 1, 0, 1, 5, 1, 1][:length]
        )
    env, params, *_ = functions(size=(5, 7))
    assert env.render(state, params) == glyphs
    drawn = np.array(["#.GP".index(glyph) for glyph in glyphs.replace("\n", "")]).reshape(5, 7)
    np.testing.assert_array_equal(playing.method(env, "observe")(state, params), drawn)


def test_rewards_and_bumps():
    env, params, _, step = functions(size=(5, 7))
    _, state = small_maze()
    for action in (0, 1, 2):
        _, after, reward, terminated, info = step(state, action)
        assert int(after.position) == int(state.position) and bool(info["valid"])
        assert float(reward) == -1 and not bool(terminated)
    shaped = {"step_reward": 0.0, "goal_reward": 1.0, "illegal_reward": -1.0}
    # Right, right, down, down, right, right, up, up.
    for rewarded, per_step, last, unknown in [({}, -1, 0, -4), (shaped, 0, 1, -1)]:
        *_, step = functions(size=(5, 7), **rewarded)
        _, state = small_maze()
        rewards = []
        for action in (4, 3, 3, 1, 1, 3, 3, 0, 0):
            _, state, reward, terminated, _ = step(state, action)
            rewards.append(float(reward))
        assert rewards == [unknown, *[per_step] * 7, last] and bool(terminated)


def test_anchors():
    env, params, _, step = functions(size=(5, 7), sight="walls")
    _, start = small_maze()
    one, two = step(start, 3)[1], step(step(step(start, 3)[1], 3)[1], 2)[1]
    # Cells (1, 2) and (3, 2) both have walls above and below.
    other = start.replace(position=jnp.uint8(3 * 7 + 2))

    def same(of, first, second):
        anchor = playing.method(env, "fingerprint", of=of)
        return np.array_equal(anchor(first, params), anchor(second, params))

    assert same("state", one, two) and same("observation", one, two)
    assert same("observation", one, other) and not same("state", one, other)
