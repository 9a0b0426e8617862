"""Rules of Trade Comm for two players and n items, as pure functions on one game.

Each seat privately gets one of n items, independently and uniformly. Seat 0 announces a number
below n, then seat 1, both publicly; then each secretly offers to give one item for another. If the
offers match and both seats own the items they give, both get 1. The numbers have no meaning until
the seats agree on one: there are many bad equilibria and n! good ones.

Sokota et al. (2021), https://arxiv.org/abs/2102.06924; Marris et al. (2021),
https://arxiv.org/abs/2106.09435. The games are OpenSpiel's `trade_comm`, action ids included.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp


class State(NamedTuple):
    """items i32[2], by seat; actions i32[4], in order of play, -1 for none yet.

    Actions 0..n-1 announce a number; n + n g + r offers item g for item r.
    """

    items: jax.Array
    actions: jax.Array


def num_actions(num_items: int) -> int:
    """Number of actions: an announcement per item, then an offer per ordered pair of items."""
    return num_items + num_items**2


def initial(items: jax.Array) -> State:
    """The game after the deal of items i32[2], each in 0..n-1."""
    return State(jnp.asarray(items, jnp.int32), jnp.full(4, -1, jnp.int32))


def num_acted(state: State) -> jax.Array:
    """How many actions were taken, i32[]."""
    return jnp.sum(state.actions >= 0, dtype=jnp.int32)


def player(state: State) -> jax.Array:
    """The seat that acts next, i32[]."""
    return num_acted(state) % 2


def terminal(state: State) -> jax.Array:
    """Whether both have made their offers, bool[]."""
    return num_acted(state) == 4


def legal(state: State, num_items: int) -> jax.Array:
    """Legal actions, bool[n + n^2]: first the numbers, then the offers."""
    speaks = jnp.arange(num_actions(num_items)) < num_items
    return (speaks == (num_acted(state) < 2)) & ~terminal(state)


def play(state: State, action: jax.Array) -> State:
    """The game after a legal action i32[] of the seat whose turn it is."""
    now = jnp.arange(4) == num_acted(state)
    return state._replace(actions=jnp.where(now, action, state.actions).astype(jnp.int32))


def returns(state: State, num_items: int) -> jax.Array:
    """1 for both seats if the offers match and are covered, i32[2]; else, and before the end, 0."""
    offers = state.actions[2:] - num_items
    gives, gets = offers // num_items, offers % num_items
    fits = jnp.all((gives == state.items) & (gives == gets[::-1]))
    return jnp.broadcast_to(terminal(state) & fits, (2,)).astype(jnp.int32)
