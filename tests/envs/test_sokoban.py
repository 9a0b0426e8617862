"""Sokoban against a breadth-first search in plain Python, and its rules by hand."""

import collections
import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import playing
import pytest
import recorded

import envs
from envs.sokoban import rules

MOVES = [(-1, 0), (1, 0), (0, -1), (0, 1)]
CODE = {glyph: code for code, glyph in enumerate("#_O*XPS")}

ROOM = """
#######
#_____#
#PX_O_#
#_XO__#
#_____#
#_____#
#######"""


def codes_of(drawing):
    return np.array([[CODE[glyph] for glyph in row] for row in drawing.split()], np.uint8)


def stepper(**options):
    """(env, params, step of state and action) without a limit that matters."""
    env, params, _, step = playing.functions("Sokoban-v1", max_steps_in_episode=1000, **options)
    return env, params, step


@functools.cache
def drawn(size, boxes, number=512):
    """(env, params, states): rooms that the environment draws."""
    env, params, *_ = playing.functions("Sokoban-v1", size=size, boxes=boxes)
    return env, params, playing.starts(env, params, number, seed=size)


def codes_of_drawn(size, boxes):
    env, params, states = drawn(size, boxes)
    states = jax.tree.map(lambda x: x[:64], states)
    return np.asarray(jax.jit(jax.vmap(env.observe, in_axes=(0, None)))(states, params))


def shortest(codes):
    """Least number of moves by breadth-first search on codes, -1 if there is none."""
    floor = codes != 0
    targets = frozenset(map(tuple, np.argwhere(np.isin(codes, (2, 3, 6))).tolist()))
    boxes = frozenset(map(tuple, np.argwhere(np.isin(codes, (3, 4))).tolist()))
    player = tuple(np.argwhere(codes >= 5)[0].tolist())
    queue, seen = collections.deque([(player, boxes, 0)]), {(player, boxes)}
    while queue:
        (row, col), boxes, steps = queue.popleft()
        if boxes == targets:
            return steps
        for down, right in MOVES:
            ahead, beyond = (row + down, col + right), (row + 2 * down, col + 2 * right)
            after = boxes
            if ahead in boxes:
                if not floor[beyond] or beyond in boxes:
                    continue
                after = boxes - {ahead} | {beyond}
            if floor[ahead] and (ahead, after) not in seen:
                seen.add((ahead, after))
                queue.append((ahead, after, steps + 1))
    return -1


def test_recorded_solutions_are_shortest():
    for episode in recorded.episodes("sokoban"):
        assert shortest(recorded.room(episode)) == episode["optimal_len"]


@pytest.mark.parametrize("size, boxes", [(6, 1), (7, 2)])
def test_drawn_rooms_are_well_formed_and_solvable(size, boxes):
    rooms = codes_of_drawn(size, boxes)
    border = np.ones((size, size), bool)
    border[1:-1, 1:-1] = False
    assert np.all(rooms[:, border] == 0)
    # One player, beside the targets; as many boxes as targets; none on a target.
    count = np.stack([np.sum(rooms == code, axis=(1, 2)) for code in range(7)], axis=1)
    np.testing.assert_array_equal(count[:, 2:], np.tile([boxes, 0, boxes, 1, 0], (len(rooms), 1)))
    assert min(map(shortest, rooms[:50])) > 0
    assert len(np.unique(rooms.reshape(len(rooms), -1), axis=0)) > 60


def test_lengths_are_those_of_the_reference():
    # gym-sokoban's rooms of 6 x 6 with one box: mean 3.16, sd 2.2 over 600 rooms. Our standard
    # error over 512 is 0.10.
    env, params, states = drawn(6, 1)
    rooms = (states.floor, states.targets, states.boxes, states.player)
    _, steps = jax.jit(jax.vmap(lambda *room: rules.solve(*room, 1)))(*rooms)
    assert abs(float(steps.mean()) - 3.16) < 0.4
    assert 1.8 < float(steps.std()) < 2.6


@pytest.mark.parametrize("size, boxes", [(6, 1), (7, 2)])
def test_expert_takes_a_shortest_solution(size, boxes):
    env, params, _ = drawn(size, boxes)
    # The first rooms of those.
    params = params.replace(max_steps_in_episode=100)
    history = playing.episodes(env, params, 32, 48, seed=size)
    optimal = np.array([shortest(codes) for codes in codes_of_drawn(size, boxes)[:32]])
    assert optimal.max() <= 48
    np.testing.assert_array_equal(history.last.time, optimal)
    assert history.info["success"][:, -1].all()
    # Each box comes onto a target once for good, every step costs 0.1.
    np.testing.assert_allclose(history.reward.sum(1), 10 + boxes - 0.1 * optimal, atol=1e-4)


def test_solver_agrees_with_search_on_any_room():
    """Scattered rooms: solved, lost, and with the player on a target."""
    rng = np.random.default_rng(0)
    rooms = []
    for _ in range(200):
        codes = np.zeros((5, 6), np.uint8)
        inside = rng.random(12) < 0.85
        inside[rng.choice(12, 5, replace=False)] = True
        cells = rng.permutation(np.flatnonzero(inside))
        targets, boxes = cells[:2], rng.choice(cells, 2, replace=False)
        player = next(cell for cell in cells[::-1] if cell not in boxes)
        inner = inside.astype(np.uint8)
        inner[targets] = 2
        inner[boxes] = np.where(np.isin(boxes, targets), 3, 4)
        inner[player] = 6 if player in targets else 5
        codes[1:-1, 1:-1] = inner.reshape(3, 4)
        rooms.append(codes)
    env, _ = envs.make("Sokoban-v1", size=(5, 6), boxes=1)
    states = jax.vmap(env.from_codes)(np.stack(rooms))
    boards = (states.floor, states.targets, states.boxes, states.player)
    _, steps = jax.jit(jax.vmap(lambda *room: rules.solve(*room, 2)))(*boards)
    expected = [shortest(codes) for codes in rooms]
    assert min(expected) == -1 and 0 in expected and max(expected) > 5
    np.testing.assert_array_equal(steps, expected)


def test_corner_deadlocks_are_lost():
    env, _ = envs.make("Sokoban-v1", size=5)
    room = "##### #{}{}{}# #{}{}{}# #{}{}{}# #####"
    dead = []
    for cell in range(9):  # the box in each cell, the target in the last, the player beside them
        glyphs = ["_"] * 9
        glyphs[8], glyphs[cell] = "O", "*" if cell == 8 else "X"
        glyphs[4 if cell != 4 else 1] = "P"
        codes = codes_of(room.format(*glyphs))
        state = env.from_codes(codes)
        dead.append(bool(rules.deadlocked(state.floor, state.targets, state.boxes)))
        assert not dead[-1] or shortest(codes) == -1
    # Three corners; the fourth is the target. Edges without a target are lost too, but not found.
    assert np.flatnonzero(dead).tolist() == [0, 2, 6]


def play(names, drawing=ROOM, **options):
    """Rows 1 to 3 of a drawing and the rewards after actions by name."""
    env, params, step = stepper(size=7, boxes=2, **options)
    state, rewards = env.from_codes(codes_of(drawing)), []
    for name in names:
        _, state, reward, *_ = step(state, env.action_names.index(name))
        rewards.append(round(float(reward), 4))
    return env.render(state, params).split()[1:4], rewards


@pytest.mark.parametrize(
    "names, rows, rewards",
    [
        # Onto the target: 1 - 0.1; off it again: -1 - 0.1; against the wall: only the step.
        (["right"] * 4, ["#_____#", "#___SX#", "#_XO__#"], [-0.1, 0.9, -1.1, -0.1]),
        # Two boxes in a row do not move, and a wall holds the player.
        (["up", "right", "down", "up"], ["#_P___#", "#_X_O_#", "#_XO__#"], [-0.1] * 4),
        # The last box: 10 + 1 - 0.1.
        (
            ["down", "right", "left", "up", "right", "right"],
            ["#_____#", "#__P*_#", "#__*__#"],
            [-0.1, 0.9, -0.1, -0.1, -0.1, 10.9],
        ),
    ],
)
def test_pushes_and_their_rewards(names, rows, rewards):
    assert play(names) == (rows, rewards)


def test_from_target_to_target_is_neither_gain_nor_loss():
    drawing = "####### #PXOO_# #_____# #__X__# #_____# #_____# #######"
    assert play(["right", "right"], drawing) == (["#__S*_#", "#_____#", "#__X__#"], [0.9, -0.1])


def test_moves_of_gym_do_not_push():
    blocked = play(["move right", "none"], actions="gym")
    assert blocked == (ROOM.split()[1:4], [-0.1, -0.1])
    assert play(["push right"], actions="gym") == play(["right"])


def test_reward_params_make_it_sparse():
    sparse = {"step_reward": 0.0, "box_reward": 0.0, "finished_reward": 1.0}
    env, _, _, step = playing.functions("Sokoban-v1", **sparse)
    state = env.from_codes(codes_of("###### #____# #PX_O# #____# #____# ######"))
    rewards = []
    for _ in range(3):
        _, state, reward, terminated, _ = step(state, 3)
        rewards.append((float(reward), bool(terminated)))
    assert rewards == [(0, False), (1, True), (0, True)]


def test_first_step_counts_boxes_from_zero():
    # The reference's counter starts at 0 although a box is on its target: +1 for walking.
    assert play(["up", "down"], ROOM.replace("_XO", "__*"))[1] == [0.9, -0.1]


def test_fingerprints_follow_the_room_and_forget_the_way():
    env, params, step = stepper(size=7, boxes=2)
    state = start = env.from_codes(codes_of(ROOM))
    for action in (0, 1):  # there and back
        _, state, *_ = step(state, action)
    _, pushed, *_ = step(state, 3)
    for of in ("observation", "state"):
        there = env.fingerprint(start, params, of=of)
        chex.assert_trees_all_equal(env.fingerprint(state, params, of=of), there)
        assert not np.array_equal(env.fingerprint(pushed, params, of=of), there)


@pytest.mark.parametrize("shape", [(3, 3), (4, 4), (6, 6), (8, 8), (3, 30)])
def test_boards_are_sets_of_cells(shape):
    rng = np.random.default_rng(0)
    a, b = rng.random((2, shape[0] + 2, shape[1] + 2)) < 0.5
    for cells in (a, b):
        cells[[0, -1]] = cells[:, [0, -1]] = False
    x, y = rules.board(a), rules.board(b)
    for board, cells in ((x & y, a & b), (x | y, a | b), (x ^ y, a ^ b), (x - y, a & ~b)):
        np.testing.assert_array_equal(board.cells(), cells)
        assert int(board.count()) == cells.sum()
    for direction, (down, right) in enumerate(MOVES):
        moved = np.roll(a, (down, right), (0, 1))
        moved[[0, -1]] = moved[:, [0, -1]] = False
        np.testing.assert_array_equal(x.shift(direction).cells(), moved)
        np.testing.assert_array_equal(x.ahead(jnp.int32(direction)).cells(), moved)
    assert not bool(x.ahead(jnp.int32(-1)).any()) and bool(x.any())


def test_no_expert_beyond_the_table():
    env, params = envs.make("Sokoban-v1", size=10, boxes=4)
    state = jax.eval_shape(lambda key: env.initial(key, params), jax.random.key(0))
    with pytest.raises(ValueError, match="33554432 words"):
        jax.eval_shape(lambda state: env.expert(state, params), state)
