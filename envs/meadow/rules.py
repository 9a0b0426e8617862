"""The meadow: where grass grows, where goals are, and the best walk for any rewards of steps."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

SIZE = 7
# Columns and rows of the goals, from the lower left.
GOALS = np.array([[6, 6], [0, 6], [6, 0], [0, 0], [3, 6], [6, 3]], np.int32)
MOVES = np.array([[-1, 0], [1, 0], [0, -1], [0, 1]], np.int32)
LEFT, RIGHT, DOWN, UP = range(4)
PATH, GRASS, WALL = range(3)
# States of a goal: column, row, and the last direction (0 for none).
STATES = (SIZE, SIZE, 1 + len(MOVES))


class Step(NamedTuple):
    """What moves lead to, [7, 7, 4] by place and action: place i32[..., 2], its ground i32[...]."""

    place: np.ndarray
    ground: np.ndarray


@functools.cache
def grass(number: int) -> np.ndarray:
    """Map `number`, bool[7, 7] by column and row: nearly half of the places are grass, none a goal."""
    grown = np.random.default_rng(number).random((SIZE, SIZE)) < 0.45
    grown[tuple(GOALS.T)] = False
    return grown


@functools.cache
def steps(number: int) -> Step:
    """The moves on map `number`; at a wall one stays."""
    here = np.stack(np.meshgrid(*[np.arange(SIZE)] * 2, indexing="ij"), -1)
    aim = here[:, :, None] + MOVES
    wall = ((aim < 0) | (aim >= SIZE)).any(-1)
    place = np.clip(aim, 0, SIZE - 1).astype(np.int32)
    grown = grass(number)[place[..., 0], place[..., 1]]
    return Step(place, np.where(wall, WALL, grown * GRASS).astype(np.int32))


def manners(before: jax.Array, ground: jax.Array, action: jax.Array, on: float, turn: float):
    """What nobody says and everybody minds, f32[...] <= 0: -`on` for a step onto grass, -`turn` for
    another direction than before. before: i32, 0 for none, else the last action + 1."""
    turned = (before > 0) & (before != action + 1)
    return -(on * (ground == GRASS) + turn * turned)


def plan(number: int, goal: jax.Array, extra: jax.Array, gamma: float, pays: float = 1.0):
    """(values of actions f32[7, 7, 5, 4], of states f32[7, 7, 5]): the best walk to a goal.

    A step pays extra f32[7, 7, 5, 4], by place, last direction and action, and one to the goal
    i32[2] `pays` beside it, which is the end. Value iteration, 60 sweeps.
    """
    place = jnp.asarray(steps(number).place)
    arrives = jnp.all(place == goal, axis=-1)[:, :, None]

    def values(value):
        action = jnp.arange(len(MOVES))
        after = value[place[..., 0], place[..., 1], action + 1][:, :, None]
        return extra + jnp.where(arrives, pays, gamma * after)

    def sweep(value, _):
        return jnp.max(values(value), axis=-1), None

    value, _ = jax.lax.scan(sweep, jnp.zeros(STATES), length=60)
    return values(value), value


def walked(number: int, goal: jax.Array, choice: jax.Array, counted: jax.Array, limit: int):
    """(share of starts that arrive f32[], mean sum of counted rewards f32[]) of a fixed policy.

    choice: i32[7, 7, 5]. counted: f32[7, 7, 5, 4]. Every place but the goal is a start.
    """
    place = jnp.asarray(steps(number).place)
    here = jnp.stack(jnp.meshgrid(*[jnp.arange(SIZE)] * 2, indexing="ij"), -1).reshape(-1, 2)
    start = ~jnp.all(here == goal, axis=-1)

    def step(carry, _):
        here, before, runs, total = carry
        action = choice[here[:, 0], here[:, 1], before]
        total += jnp.where(runs, counted[here[:, 0], here[:, 1], before, action], 0.0)
        here = place[here[:, 0], here[:, 1], action]
        return (here, action + 1, runs & ~jnp.all(here == goal, axis=-1), total), None

    zero = jnp.zeros(len(here))
    carry = (here, zero.astype(jnp.int32), start, zero)
    (_, _, runs, total), _ = jax.lax.scan(step, carry, length=limit)
    count = jnp.sum(start)
    return jnp.sum(start & ~runs) / count, jnp.sum(jnp.where(start, total, 0.0)) / count
