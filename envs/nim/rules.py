"""Nim: two seats take objects in turn, any number from one pile; who takes the last one wins.

Action a is move a of `pairs`: a pile and a quantity.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct


@struct.dataclass
class State:
    """piles: u8[piles], objects left. seat: i32[], the current player. sizes: piles at the
    start."""

    piles: jax.Array
    seat: jax.Array
    sizes: tuple[int, ...] = struct.field(pytree_node=False)


def pairs(sizes: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """All moves, (pile, quantity): pile by pile, the quantities from 1 to its size."""
    return tuple((pile, q) for pile, size in enumerate(sizes) for q in range(1, size + 1))


def moves(sizes: tuple[int, ...]) -> np.ndarray:
    """Objects that each move takes from each pile, u8[moves, piles]."""
    pile, quantity = np.array(pairs(sizes)).T
    return np.where(pile[:, None] == np.arange(len(sizes)), quantity[:, None], 0).astype(np.uint8)


def nim_sum(piles: jax.Array) -> jax.Array:
    """Sum without carries of u8[..., piles]: 0 if the player to move loses against optimal play."""
    return functools.reduce(jnp.bitwise_xor, [piles[..., i] for i in range(piles.shape[-1])])


def initial(sizes: tuple[int, ...]) -> State:
    """Piles of these sizes, seat 0 to move."""
    return State(jnp.array(sizes, jnp.uint8), jnp.zeros((), jnp.int32), sizes)


def player(state: State) -> jax.Array:
    """The seat that acts next, i32[]."""
    return state.seat


def legal(state: State) -> jax.Array:
    """Moves that take no more than there is, bool[moves]."""
    return jnp.all(moves(state.sizes) <= state.piles, axis=1)


def play(state: State, action: jax.Array) -> State:
    """Removes the objects of a legal move."""
    table = moves(state.sizes)
    chosen = jnp.arange(len(table)) == action
    taken = jnp.sum(jnp.where(chosen[:, None], table, 0), 0, dtype=jnp.uint8)
    return state.replace(piles=state.piles - taken, seat=1 - state.seat)


def terminal(state: State) -> jax.Array:
    """Whether no object is left, bool[]."""
    return ~jnp.any(state.piles > 0)


def returns(state: State) -> jax.Array:
    """At the end 1 for the seat that took the last object, -1 for the other, i32[2]."""
    took = jnp.arange(2) != state.seat
    return jnp.where(terminal(state), jnp.where(took, 1, -1), 0)


def information_state(state: State, player: int) -> str:
    """The piles, which both see: `3 4 5`."""
    return " ".join(map(str, state.piles))


def deals(piles: tuple[int, ...] = (3, 4, 5)) -> State:
    """The one start, with a leading axis."""
    return jax.tree.map(lambda x: x[None], initial(piles))
