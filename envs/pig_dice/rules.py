"""Pig: roll a die and sum the points, or hold and keep them; a 1 loses the turn's points."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

ROLL, HOLD = range(2)


class State(NamedTuple):
    """A position of two seats.

    scores: i32[2], points kept. total: i32[], points of this turn so far. seat: i32[], the current
    player. actions: i32[], actions of both so far. over: bool[].
    """

    scores: jax.Array
    total: jax.Array
    seat: jax.Array
    actions: jax.Array
    over: jax.Array


def initial() -> State:
    """The position before the first roll: nobody has points, and player 0 is to move."""
    zero = jnp.zeros((), jnp.int32)
    return State(jnp.zeros(2, jnp.int32), zero, zero, zero, jnp.zeros((), bool))


def throw(key: jax.Array) -> jax.Array:
    """Outcome of a die, i32[] from 1 to 6."""
    return 1 + jnp.floor(6 * jax.random.uniform(key)).astype(jnp.int32)


def player(state: State) -> jax.Array:
    """The current player, i32[]."""
    return state.seat


def legal(state: State) -> jax.Array:
    """Both actions, bool[2]."""
    return jnp.ones(2, bool)


def play(state: State, action: jax.Array, die: jax.Array, target: int, limit: int) -> State:
    """Rolls `die`, or holds.

    The game ends only when the turn passes, by a hold or a 1: if a seat has `target` points, or
    after `limit` earlier actions. The turn's total then stays unchanged.
    """
    holds = action == HOLD
    mine = jnp.arange(2) == state.seat
    scores = state.scores + jnp.where(mine & holds, state.total, 0)
    passes = holds | (die == 1)
    over = passes & ((state.actions >= limit) | jnp.any(scores >= target))
    goes_on = passes & ~over
    return State(
        scores=scores,
        total=jnp.where(passes, jnp.where(over, state.total, 0), state.total + die),
        seat=jnp.where(goes_on, 1 - state.seat, state.seat),
        actions=state.actions + 1,
        over=over,
    )


def terminal(state: State) -> jax.Array:
    """Whether the turn passed at the target or at the limit, bool[]."""
    return state.over


def returns(state: State) -> jax.Array:
    """At the end 1 for the seat with more points, -1 for the other, 0 if equal, i32[2]."""
    return jnp.where(state.over, jnp.sign(state.scores - state.scores[::-1]), 0)


def information_state(state: State, player: int) -> str:
    """Points of both and of the turn, and how many actions there were."""
    first, second = state.scores
    return f"{first} : {second}, seat {state.seat} has {state.total} after {state.actions} actions"


def scores_of(state: State, seat: jax.Array) -> jax.Array:
    """The score of a seat and that of the other, i32[2]."""
    return jnp.where(seat == 0, state.scores, state.scores[::-1])
