"""The square of Treasures: places, what a visit to the treasure is worth, and who walks best.

Read in JAEarly/MIL-for-Non-Markovian-Reward-Modelling 4e9edcd: its boxes, steps and four kinds of
hidden memory, of an episode of 100 steps of at most 0.1. Here positions lie on a grid.
"""

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

Memory = Literal["key", "timer", "charger", "moving"]
MOVES = np.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]], np.int32)
STAY, LEFT, RIGHT, DOWN, UP = range(5)
# (low, high) corners of boxes in the unit square.
TREASURE, KEY = ((0.4, 0.7), (0.6, 0.9)), ((0.4, 0.1), (0.6, 0.3))
SPAWNS = (((0.1, 0.4), (0.2, 0.6)), ((0.8, 0.4), (0.9, 0.6)))
CHARGER = 0.3
_CLOSE = 1e-4


@struct.dataclass
class Walk:
    """position: i32[2], column and row from the lower left. unlocked: bool[], the key has been
    visited. charge: f32[] in [0, 1]. left: f32[], of the moving treasure's left side; drift: f32[],
    by how much it moves next."""

    position: jax.Array
    unlocked: jax.Array
    charge: jax.Array
    left: jax.Array
    drift: jax.Array


def inside(place: jax.Array, box: tuple) -> jax.Array:
    """Whether places [..., 2] of the unit square are in a box, bool[...]; its sides belong to
    it."""
    low, high = (jnp.asarray(corner, jnp.float32) for corner in box)
    return jnp.all((place >= low - _CLOSE) & (place <= high + _CLOSE), axis=-1)


def spawns(cells: int) -> np.ndarray:
    """The cells that an episode can start in, i32[M, 2]."""
    places = np.stack(np.meshgrid(*[np.arange(cells)] * 2, indexing="ij"), -1).reshape(-1, 2)
    where = places / (cells - 1)
    low, high = np.array(SPAWNS).transpose(1, 0, 2)[..., None, :]
    there = (where >= low - _CLOSE) & (where <= high + _CLOSE)
    return places[there.all(-1).any(0)].astype(np.int32)


def begin(key: jax.Array, cells: int, limit: jax.Array) -> Walk:
    """A walk at its start, in a cell of one of the two spawns."""
    first = jnp.asarray(spawns(cells))
    zero = jnp.zeros(())
    return Walk(
        position=first[jax.random.randint(key, (), 0, first.shape[0])],
        unlocked=jnp.zeros((), bool),
        charge=zero,
        left=zero + 0.4,
        drift=zero - 2.0 / limit,
    )


def remembered(walk: Walk, cells: int, limit: jax.Array) -> Walk:
    """The hidden memory after one more step, by the position before the move."""
    place = walk.position / (cells - 1)
    low = place[1] <= CHARGER + _CLOSE
    left = walk.left + walk.drift
    turned = (left < 0.0) | (left > 0.8)
    left = jnp.clip(left, 0.0, 0.8)
    return walk.replace(
        unlocked=walk.unlocked | inside(place, KEY),
        charge=jnp.minimum(walk.charge + jnp.where(low, 2.0 / limit, 0.0), 1.0),
        left=left,
        drift=jnp.where(turned, -walk.drift, walk.drift),
    )


def worth(walk: Walk, steps: jax.Array, cells: int, limit: jax.Array, memory: Memory) -> jax.Array:
    """The reward of being where the walk is, f32[], of a memory that has seen the position.

    steps: i32[], this one included.
    """
    place = walk.position / (cells - 1)
    there = inside(place, TREASURE)
    if memory == "key":
        return jnp.where(there & walk.unlocked, 1.0, 0.0)
    if memory == "timer":
        return jnp.where(there, jnp.where(2 * steps > limit, 1.0, -1.0), 0.0)
    if memory == "charger":
        return jnp.where(there, walk.charge, 0.0)
    found = inside(place - jnp.stack([walk.left - 0.4, 0.0]), TREASURE)
    return jnp.where(found, 1.0, 0.0)


def moved(walk: Walk, action: jax.Array, cells: int) -> Walk:
    """The walk after an action; against a wall it stays."""
    step = jnp.asarray(MOVES)[action]
    return walk.replace(position=jnp.clip(walk.position + step, 0, cells - 1))


def expert(walk: Walk, steps: jax.Array, cells: int, limit: jax.Array, memory: Memory) -> jax.Array:
    """An action towards what pays: first the key, the charger, or a place beside the treasure to
    wait at, then the treasure. steps: i32[], taken so far."""
    place = walk.position / (cells - 1)
    high = jnp.array([0.5, 0.8])
    low = jnp.array([0.5, 0.2])
    if memory == "key":
        goal = jnp.where(walk.unlocked | inside(place, KEY), high, low)
    elif memory == "charger":
        goal = jnp.where(2 * steps >= limit - cells, high, low)
    elif memory == "timer":
        goal = jnp.where(2 * (steps + 1) >= limit, high, jnp.array([0.5, 0.5]))
    else:
        goal = high.at[0].set(walk.left + 0.1)
    gap = goal - place
    near = jnp.abs(gap) <= 0.1 + _CLOSE
    across = jnp.where(gap[0] > 0, RIGHT, LEFT)
    along = jnp.where(gap[1] > 0, UP, DOWN)
    # Sideways first below the treasure's height, so that nobody crosses it on the way.
    return jnp.where(~near[0], across, jnp.where(~near[1], along, STAY)).astype(jnp.int32)
