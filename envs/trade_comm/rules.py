"""Rules of Trade Comm for two players and n items, as pure functions on one game.

Each seat privately gets one of n items, independently and uniformly. Seat 0 announces a number
below n, then seat 1, both publicly; then each secretly offers to give one item for another. If the
offers match and both seats own the items they give, both get 1. The numbers have no meaning until
the seats agree on one: there are many bad equilibria and n! good ones.

Sokota et al. (2021), https://arxiv.org/abs/2102.06924; Marris et al. (2021),
https://arxiv.org/abs/2106.09435. The games are OpenSpiel's `trade_comm`, action ids and information
states included.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct


@struct.dataclass
class State:
    """items i32[2], by seat; actions i32[4], in order of play, -1 for none yet; num_items, n.

    Actions 0..n-1 announce a number; n + n g + r offers item g for item r.
    """

    items: jax.Array
    actions: jax.Array
    num_items: int = struct.field(pytree_node=False)


def initial(items: jax.Array, num_items: int) -> State:
    """The game after the deal of items i32[2], each in 0..n-1."""
    return State(jnp.asarray(items, jnp.int32), jnp.full(4, -1, jnp.int32), num_items)


def num_acted(state: State) -> jax.Array:
    """How many actions were taken, i32[]."""
    return jnp.sum(state.actions >= 0, dtype=jnp.int32)


def player(state: State) -> jax.Array:
    """The seat that acts next, i32[]."""
    return num_acted(state) % 2


def terminal(state: State) -> jax.Array:
    """Whether both have made their offers, bool[]."""
    return num_acted(state) == 4


def legal(state: State) -> jax.Array:
    """Legal actions, bool[n + n^2]: first the numbers, then the offers."""
    speaks = jnp.arange(state.num_items + state.num_items**2) < state.num_items
    return (speaks == (num_acted(state) < 2)) & ~terminal(state)


def play(state: State, action: jax.Array) -> State:
    """The game after a legal action i32[] of the seat whose turn it is."""
    now = jnp.arange(4) == num_acted(state)
    return state.replace(actions=jnp.where(now, action, state.actions).astype(jnp.int32))


def returns(state: State) -> jax.Array:
    """1 for both seats if the offers match and are covered, i32[2]; else, and before the end, 0."""
    offers = state.actions[2:] - state.num_items
    gives, gets = offers // state.num_items, offers % state.num_items
    fits = jnp.all((gives == state.items) & (gives == gets[::-1]))
    return jnp.broadcast_to(terminal(state) & fits, (2,)).astype(jnp.int32)


def information_state(state: State, player: int) -> str:
    """The own item, the numbers, and how many offers there are."""
    taken = [int(a) for a in state.actions if a >= 0]
    said, offers = taken[:2], taken[2:]
    phase = "comm" if len(said) < 2 else "trade"
    return (
        f"Current turn: {player}\nMy item: {state.items[player]}\nPhase: {phase}\n"
        f"Comm history: {''.join(f' {a}' for a in said)}\nTrade history size: {len(offers)}\n"
    )


def deals(num_items: int = 2) -> State:
    """All pairs of items. ValueError without items."""
    if num_items < 1:
        raise ValueError(f"TradeComm-v1: num_items={num_items}; expected at least 1")
    items = np.array(list(itertools.product(range(num_items), repeat=2)))
    return jax.vmap(lambda pair: initial(pair, num_items))(items)
