"""Coin: its levels, and its maps against plain Python."""

import collections
import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import playing
import pytest

from envs.coin import rules
from envs.coin.env import NOWHERE, TAKE, CoinState

functions = functools.partial(playing.functions, "Coin-v1")


def anchor(of, **options):
    """Fingerprint of a state, compiled once."""
    env, params, *_ = functions(**options)
    return lambda state: playing.method(env, "fingerprint", of=of)(state, params)


def test_levels():
    assert rules.level_options(105) == {"quest_length": 5, "distractors": 1, "num_names": 32}
    assert rules.level_options(150) == {"quest_length": 50, "distractors": 1, "num_names": 100}
    for level in (0, 151, 234, 301):
        with pytest.raises(ValueError, match=f"level {level}: expected 1 to 300"):
            rules.level_options(level)


def maps(count, quest_length, distractors, seed=0):
    keys = jax.random.split(jax.random.key(seed), count)
    draw = jax.jit(jax.vmap(lambda key: rules.generate(key, quest_length, distractors)))
    return np.asarray(draw(keys))


def breadth_first(exits, target):
    """Moves to the target room by plain breadth-first search."""
    distance, queue = {target: 0}, collections.deque([target])
    while queue:
        room = queue.popleft()
        for there in exits[room]:
            if there >= 0 and there not in distance:
                distance[there] = distance[room] + 1
                queue.append(there)
    return distance


@pytest.mark.parametrize("quest_length, distractors", [(1, 0), (1, 2), (4, 1), (10, 2)])
def test_generated_maps(quest_length, distractors):
    rooms = quest_length * (1 + distractors)
    for exits in maps(64, quest_length, distractors):
        assert exits.shape == (rooms, 4)
        for room, way in np.argwhere(exits >= 0):
            assert exits[exits[room, way], way ^ 1] == room
        # A tree: connected, and every passage (two exits) joins a new room.
        assert (exits >= 0).sum() == 2 * (rooms - 1)
        distance = breadth_first(exits, quest_length - 1)
        assert len(distance) == rooms and distance[0] == quest_length - 1
        degree = (exits >= 0).sum(1)
        assert np.all(degree[quest_length:] == 1)
        for room in range(quest_length):
            along = (room > 0) + (room < quest_length - 1)
            assert degree[room] == along + distractors
            assert sum(there >= quest_length for there in exits[room]) == distractors


def test_ways_are_uniform_over_the_free_exits():
    exits = maps(4000, 3, 1)
    first = np.argmax(exits[:, 0] == 1, axis=1)
    second = np.argmax(exits[:, 1] == 2, axis=1)
    table = np.zeros((4, 4))
    np.add.at(table, (first, second), 1 / 4000)
    expected = np.full((4, 4), 1 / 12)
    expected[np.arange(4), np.arange(4) ^ 1] = 0
    np.testing.assert_allclose(table, expected, atol=0.02)
    # The dead end of the first room is behind one of the other three, of the last room likewise.
    for room, closed, dead_end in [(0, first, 3), (2, second ^ 1, 5)]:
        table = np.zeros((4, 4))
        np.add.at(table, (closed, np.argmax(exits[:, room] == dead_end, axis=1)), 1 / 4000)
        np.testing.assert_allclose(table, (1 - np.eye(4)) / 12, atol=0.02)


def test_names_are_drawn_anew_for_every_task():
    env, params, *_ = functions(num_names=8)
    names = playing.starts(env, params, 4000).names
    assert np.all(np.sort(names, axis=1) == np.arange(8))
    # Knowing the first room's name says nothing about the name of the coin's, but that it differs.
    table = np.zeros((8, 8))
    np.add.at(table, (names[:, 0], names[:, env.quest_length - 1]), 1 / 4000)
    np.testing.assert_allclose(table, (1 - np.eye(8)) / 56, atol=0.01)


def test_numbers_of_rooms_are_never_seen():
    env, params, reset, step = functions()
    state = reset(jax.random.key(3))
    order = np.random.default_rng(0).permutation(env.rooms)
    number = np.argsort(order).astype(np.int8)
    exits = np.asarray(state.exits)[order]
    other = state.replace(
        exits=jnp.asarray(np.where(exits >= 0, number[exits], -1).astype(np.int8)),
        names=state.names[order],
        coin=jnp.int8(number[int(state.coin)]),
        room=jnp.int8(number[int(state.room)]),
    )
    observe = playing.method(env, "observe")
    np.testing.assert_array_equal(observe(state, params), observe(other, params))
    for action in np.random.default_rng(1).integers(0, 5, 11):
        observation, state, *result = step(state, action)
        renumbered, other, *other_result = step(other, action)
        np.testing.assert_array_equal(observation, renumbered)
        chex.assert_trees_all_equal(result, other_result)


def test_observation_of_a_small_map():
    env, params, _, step = functions(quest_length=2, distractors=0, num_names=3)
    # Room 0 (named 2) lies west of room 1 (named 0), where the coin is.
    state = CoinState(
        time=jnp.int32(0),
        exits=jnp.array([[-1, -1, 1, -1], [-1, -1, -1, 0]], jnp.int8),
        names=jnp.array([2, 0], jnp.uint8),
        coin=jnp.int8(1),
        room=jnp.int8(0),
        last_move=jnp.uint8(NOWHERE),
    )
    assert env.render(state, params) == ">  attic: east kitchen\n $ kitchen: west attic"
    name, exits, coin, last = [0, 0, 1], [0, 0, 1, 0], [0], [0, 0, 0, 0, 1]
    np.testing.assert_array_equal(env.observe(state, params), name + exits + coin + last)
    seen, state, reward, terminated, _ = step(state, 2)
    name, exits, coin, last = [1, 0, 0], [0, 0, 0, 1], [1], [0, 0, 1, 0, 0]
    np.testing.assert_array_equal(seen, name + exits + coin + last)
    assert float(reward) == 0 and not bool(terminated)
    seen, state, reward, terminated, _ = step(state, TAKE)
    np.testing.assert_array_equal(seen, name + exits + [0] + last)
    assert float(reward) == 1 and bool(terminated)


def test_closed_exits_and_missing_coins_are_illegal():
    env, params, reset, step = functions(illegal_reward=-0.5)
    state = reset(jax.random.key(0))
    legal = np.asarray(env.legal_actions(state, params)[0])
    np.testing.assert_array_equal(legal, [*(np.asarray(state.exits[0]) >= 0), False])
    for action in np.flatnonzero(~legal):
        _, after, reward, _, info = step(state, action)
        assert float(reward) == -0.5 and not bool(info["valid"])
        chex.assert_trees_all_equal(after, state.replace(time=jnp.int32(1)))


@pytest.mark.parametrize("options", [{}, {"quest_length": 6, "distractors": 2}])
def test_expert_is_optimal_from_every_room(options):
    env, params, *_ = functions(**options)
    states = playing.starts(env, params, 32, seed=1)
    rooms = jnp.arange(env.rooms, dtype=jnp.int8)
    expert = jax.vmap(
        lambda state: jax.vmap(lambda r: env.expert(state.replace(room=r), params))(rooms)
    )
    chosen = np.asarray(jax.jit(expert)(states))
    ours = jax.jit(jax.vmap(rules.distances))(states.exits, states.coin)
    for task in range(32):
        exits, coin = np.asarray(states.exits[task]), int(states.coin[task])
        distance = breadth_first(exits, coin)
        np.testing.assert_array_equal(ours[task], [distance[room] for room in range(env.rooms)])
        for room, action in enumerate(chosen[task]):
            if room == coin:
                assert action == TAKE
            else:
                assert distance[int(exits[room, action])] == distance[room] - 1


@pytest.mark.parametrize("show_last_move", [True, False])
def test_anchors_of_one_room_reached_by_two_ways(show_last_move):
    _, _, reset, step = functions(show_last_move=show_last_move)
    start = reset(jax.random.key(2))
    onwards = [int(np.argmax(np.asarray(start.exits[i]) == i + 1)) for i in range(2)]
    direct = step(start, onwards[0])[1]
    returned = step(step(direct, onwards[1])[1], onwards[1] ^ 1)[1]
    assert int(direct.room) == int(returned.room) == 1

    def same(of, first, second):
        of_state = anchor(of, show_last_move=show_last_move)
        return bool(jnp.all(of_state(first) == of_state(second)))

    assert same("state", direct, returned)
    assert same("observation", direct, returned) == (not show_last_move)
    assert not same("state", direct, start)
    taken = step(direct.replace(room=direct.coin), TAKE)[1]
    assert not same("state", direct.replace(room=direct.coin), taken)


def test_rooms_look_alike_without_names():
    options = {"show_name": False, "show_last_move": False}
    env, _, reset, _ = functions(**options)
    state = reset(jax.random.key(0))
    assert env.observation_shape == (5,)
    rooms = [state.replace(room=jnp.int8(room)) for room in range(env.rooms)]
    seen = {bytes(np.asarray(anchor("observation", **options)(s))) for s in rooms}
    kept = {bytes(np.asarray(anchor("state", **options)(s))) for s in rooms}
    # The coin's room looks like no other, and the four dead ends have but four ways to look.
    assert len(seen) < len(kept) == env.rooms
