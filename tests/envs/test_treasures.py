"""Treasures-v1: what the treasure pays, by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from playing import functions

STAY, LEFT, RIGHT, DOWN, UP = range(5)


def played(memory, place, actions, **options):
    """Rewards of actions from a place (column, row) of six."""
    _, _, reset, step = functions("Treasures-v1", memory=memory, **options)
    state = reset(jax.random.key(0))
    state = state.replace(walk=state.walk.replace(position=np.array(place, np.int32)))
    found = []
    for action in actions:
        _, state, reward, terminated, _ = step(state, action)
        assert not terminated
        found.append(float(reward))
    return found


def test_key():
    # The treasure is row 4, the key row 1, both in columns 2 and 3.
    assert played("key", (2, 4), [STAY, STAY]) == [0, 0]
    assert played("key", (2, 2), [DOWN, UP, UP, UP, STAY, RIGHT, RIGHT]) == [0] * 4 + [1, 1, 1]
    assert played("key", (3, 1), [UP, UP, UP, RIGHT, LEFT]) == [0, 0, 0, 1, 0]


def test_timer():
    # Of 6 steps the first three.
    assert played("timer", (3, 4), [STAY] * 6, max_steps_in_episode=6) == [-1] * 3 + [1] * 3
    assert played("timer", (0, 0), [STAY] * 3, max_steps_in_episode=6) == [0] * 3


def test_charger():
    # 2 / 8 with each step in row 0 or 1, the place before the move.
    found = played("charger", (2, 1), [STAY, UP, UP, UP, STAY], max_steps_in_episode=8)
    np.testing.assert_allclose(found, [0, 0, 0, 0, 0.5])


def test_moving():
    # From columns 2 and 3 by 2 / 10, one column, before each reward: 1 and 2, 0 and 1, then the
    # wall, a step in which it turns, and back: 0 and 1, 1 and 2, 2 and 3.
    assert played("moving", (1, 4), [STAY] * 5, max_steps_in_episode=10) == [1, 1, 1, 1, 0]
    assert played("moving", (2, 4), [STAY] * 5, max_steps_in_episode=10) == [1, 0, 0, 1, 1]
    assert played("moving", (2, 3), [STAY] * 5, max_steps_in_episode=10) == [0] * 5


@pytest.mark.parametrize("memory", ["key", "timer", "charger", "moving"])
def test_the_expert_gets_more_than_chance(memory):
    env, params, _, _ = functions("Treasures-v1", memory=memory)

    def episode(key, of_expert):
        def turn(state, key):
            draw = jax.random.randint(key, (), 0, 5)
            action = jnp.where(of_expert, env.expert(state, params), draw)
            _, state, reward, _, _ = env.step_env(key, state, action, params)
            return state, reward

        state = env.initial(key, params)
        return jnp.sum(jax.lax.scan(turn, state, jax.random.split(key, 50))[1])

    keys = jax.random.split(jax.random.key(0), 64)
    by = jax.jit(jax.vmap(episode, (0, None)))
    best, chance = np.mean(by(keys, True)), np.mean(by(keys, False))
    assert best > 10 > chance


def test_starts_are_left_and_right_of_the_middle():
    _, _, reset, _ = functions("Treasures-v1", memory="key")
    first = {tuple(reset(jax.random.key(i)).walk.position.tolist()) for i in range(64)}
    assert first == {(1, 2), (1, 3), (4, 2), (4, 3)}
