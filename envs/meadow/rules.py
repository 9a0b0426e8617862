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
    """What moves lead to, by place and action.

    place: i32[7, 7, 4, 2]. ground: i32[6, 7, 7, 4], of the place ahead, in the meadow of each goal.
    """

    place: np.ndarray
    ground: np.ndarray


@functools.cache
def grass(maps: int) -> np.ndarray:
    """Where grass grows in the meadow of each goal, bool[6, 7, 7] by column and row.

    Nearly half of the places are grass, the goals are not. maps: the number of a set of meadows.
    """
    grown = np.random.default_rng(maps).random((len(GOALS), SIZE, SIZE)) < 0.45
    grown[:, *GOALS.T] = False
    return grown


@functools.cache
def steps(maps: int) -> Step:
    """The moves in the meadows of a set; at a wall one stays."""
    here = np.stack(np.meshgrid(*[np.arange(SIZE)] * 2, indexing="ij"), -1)
    aim = here[:, :, None] + MOVES
    wall = ((aim < 0) | (aim >= SIZE)).any(-1)
    place = np.clip(aim, 0, SIZE - 1).astype(np.int32)
    grown = grass(maps)[:, place[..., 0], place[..., 1]]
    return Step(place, np.where(wall, WALL, grown * GRASS).astype(np.int32))


def manners(
    before: jax.Array, ground: jax.Array, action: jax.Array, on_grass: float, turning: float
) -> jax.Array:
    """What nobody says and everybody minds, f32[...] <= 0.

    -`on_grass` for a step onto grass, -`turning` for another direction than before. before: i32[],
    0 for none, else the last action + 1.
    """
    turned = (before > 0) & (before != action + 1)
    return -(on_grass * (ground == GRASS) + turning * turned)


def plan(place: np.ndarray, goal: jax.Array, extra: jax.Array, gamma: float) -> jax.Array:
    """The best walk to a goal: values of actions f32[7, 7, 5, 4], by place and last direction.

    A step pays extra f32[7, 7, 5, 4], and one to the goal i32[2], which is the end, 1 beside it.
    Value iteration, 60 sweeps. place: of `Step`.
    """
    place = jnp.asarray(place)
    arrives = jnp.all(place == goal, axis=-1)[:, :, None]

    def sweep(value, _):
        state = jnp.max(value, axis=-1)
        after = state[place[..., 0], place[..., 1], jnp.arange(len(MOVES)) + 1][:, :, None]
        return extra + jnp.where(arrives, 1.0, gamma * after), None

    value, _ = jax.lax.scan(sweep, jnp.zeros((*STATES, len(MOVES))), length=60)
    return value


def walked(
    place: np.ndarray, goal: jax.Array, choice: jax.Array, counted: jax.Array, limit: int
) -> tuple[jax.Array, jax.Array]:
    """(share of starts that arrive, mean sum of counted rewards), f32[] each, of a fixed policy.

    choice: i32[7, 7, 5]. counted: f32[7, 7, 5, 4]. Every place but the goal is a start. place: of
    `Step`.
    """
    place = jnp.asarray(place)
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
