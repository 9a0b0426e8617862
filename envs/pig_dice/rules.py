"""Pig: roll a die and sum the points, or hold and keep them; a 1 loses the turn's points."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

ROLL, HOLD = range(2)


class Position(NamedTuple):
    """A position of two seats.

    scores: i32[2], points kept. total: i32[], points of this turn so far. seat: i32[], the current
    player. actions: i32[], actions of both so far. over: bool[].
    """

    scores: jax.Array
    total: jax.Array
    seat: jax.Array
    actions: jax.Array
    over: jax.Array


def start() -> Position:
    """The position before the first roll: nobody has points, and player 0 is to move."""
    zero = jnp.zeros((), jnp.int32)
    return Position(jnp.zeros(2, jnp.int32), zero, zero, zero, jnp.zeros((), bool))


def throw(key: jax.Array) -> jax.Array:
    """Outcome of a die, i32[] from 1 to 6."""
    return 1 + jnp.floor(6 * jax.random.uniform(key)).astype(jnp.int32)


def play(
    position: Position, action: jax.Array, die: jax.Array, target: int, limit: int
) -> Position:
    """Rolls `die`, or holds.

    The game ends only when the turn passes, by a hold or a 1: if a seat has `target` points, or
    after `limit` earlier actions. The turn's total then stays unchanged.
    """
    holds = action == HOLD
    mine = jnp.arange(2) == position.seat
    scores = position.scores + jnp.where(mine & holds, position.total, 0)
    passes = holds | (die == 1)
    over = passes & ((position.actions >= limit) | jnp.any(scores >= target))
    goes_on = passes & ~over
    return Position(
        scores=scores,
        total=jnp.where(passes, jnp.where(over, position.total, 0), position.total + die),
        seat=jnp.where(goes_on, 1 - position.seat, position.seat),
        actions=position.actions + 1,
        over=over,
    )


def ahead(position: Position) -> jax.Array:
    """The seat with more points, bool[2]; none if both are equal."""
    return position.scores > position.scores[::-1]


def scores_of(position: Position, seat: jax.Array) -> jax.Array:
    """The score of a seat and that of the other, i32[2]."""
    return jnp.where(seat == 0, position.scores, position.scores[::-1])
