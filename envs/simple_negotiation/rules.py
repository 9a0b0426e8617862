"""Two traders and one open offer over R resources: TextArena's rules and SPIRAL's.

The seats act in turn, seat 0 first; who has gained more by its own values at the end wins.
"""

import types
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

# Results of the last act.
NOTHING, PASSED, DENIED, ACCEPTED, OFFERED = range(5)

RESOURCES = types.MappingProxyType(
    {"textarena": ("wheat", "wood", "sheep", "brick", "ore"), "spiral": ("wood", "gold")}
)
# TextArena: mean value of one unit of each resource; drawn within a fifth of it, from 5 to 40.
BASE = np.array([5, 10, 15, 25, 40], np.int32)
LOWEST, HIGHEST = np.maximum(BASE - BASE // 5, 5), np.minimum(BASE + BASE // 5, 40)
STOCK = (5, 25)
# SPIRAL: stock of each seat, and value of one unit to it.
SPIRAL_STOCK = 10
SPIRAL_VALUES = np.array([[5, 15], [15, 5]], np.int32)


class Market(NamedTuple):
    """Stocks, and the open offer.

    stock: i32[2, R]. proposer: i32[], owner of the open offer, -1 for none. give, ask: i32[R],
    goods that the proposer would hand over and get; 0 without an open offer.
    """

    stock: jax.Array
    proposer: jax.Array
    give: jax.Array
    ask: jax.Array


class Act(NamedTuple):
    """Content of one reply.

    accept, deny, offers: bool[], an answer and an offer can be in one reply. give, ask: i32[R] of
    the offer; one that gives or asks nothing is an offer that could not be read.
    """

    accept: jax.Array
    deny: jax.Array
    offers: jax.Array
    give: jax.Array
    ask: jax.Array


class Answer(NamedTuple):
    """Result of an act: the market after it, errors i32[] from 0 to 2, did i32[]."""

    market: Market
    errors: jax.Array
    did: jax.Array


@struct.dataclass
class State:
    """One negotiation.

    start, values: i32[2, R], goods at the start and the value of one unit to each seat. market:
    goods and the open offer. turn: i32[], legal acts so far. last: i32[], result of the last act.
    kind: whose rules, "textarena" or "spiral".
    """

    start: jax.Array
    values: jax.Array
    market: Market
    turn: jax.Array
    last: jax.Array
    kind: str = struct.field(pytree_node=False)


def opening(stock: jax.Array) -> Market:
    """The market at the start, without an offer."""
    none = jnp.zeros(stock.shape[-1], jnp.int32)
    return Market(stock, jnp.full((), -1, jnp.int32), none, none)


def initial(stock: jax.Array, values: jax.Array, kind: str) -> State:
    """The start of a negotiation over goods i32[2, R] of these values."""
    zero = jnp.zeros((), jnp.int32)
    return State(stock, values, opening(stock), zero, zero, kind)


def player(state: State) -> jax.Array:
    """The seat that acts next, i32[]."""
    return state.turn % 2


def play(state: State, act: Act, spare: jax.Array, turns: jax.Array) -> tuple[State, jax.Array]:
    """The state after an act, and its errors; `spare` as in `respond`.

    Turns pass by acts without error; an error that is forgiven on the last turn ends the game, too.
    """
    market, errors, did = respond(state.kind, state.market, player(state), act, spare)
    passes = (errors == 0) | (state.turn + 1 >= turns)
    last = jnp.where(did == NOTHING, state.last, did)
    return state.replace(market=market, turn=state.turn + passes, last=last), errors


def terminal(state: State, turns: jax.Array) -> jax.Array:
    """Whether all turns are over, bool[]."""
    return state.turn >= turns


def returns(state: State, turns: jax.Array) -> jax.Array:
    """At the end 1 for the seat that has gained more, -1 for the other, 0 if equal, i32[2]."""
    won = gains(state.market, state.start, state.values)
    return jnp.where(terminal(state, turns), jnp.sign(won - won[::-1]), 0)


def draw(rules: str, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Stock and values at the start, i32[2, R] each; SPIRAL's are constant."""
    if rules == "spiral":
        return jnp.full((2, 2), SPIRAL_STOCK, jnp.int32), jnp.asarray(SPIRAL_VALUES)
    stock_key, value_key = jax.random.split(key)
    stock = jax.random.randint(stock_key, (2, len(BASE)), STOCK[0], STOCK[1] + 1, jnp.int32)
    values = jax.random.randint(value_key, (2, len(BASE)), LOWEST, HIGHEST + 1, jnp.int32)
    return stock, values


def of_seat(rows: jax.Array, seat: jax.Array) -> jax.Array:
    """rows[seat] of i32[2, R], without a gather; zeros for seat -1."""
    return jnp.sum(jnp.where(np.arange(2)[:, None] == seat, rows, 0), axis=0)


def respond(rules: str, market: Market, seat: jax.Array, act: Act, spare: jax.Array) -> Answer:
    """The answer to the open offer, then the new offer.

    TextArena ("textarena"): a seat that accepts must own the goods asked for. Both seats may
    accept, also the proposer, which closes the offer without effect. All other acts leave the offer
    open. SPIRAL ("spiral"): only the seat to which the offer was made may accept it, and must own
    the goods asked for. The offer is closed by that seat's denial, and if the proposer no longer
    owns the offered goods, which is not an error. Both: an offer replaces the open one; its goods
    must be owned. An answer without an open offer has no effect.

    spare: i32[], errors that are still forgiven. If the answer exceeds them, the offer is ignored;
    otherwise it is processed, so one act can contain two errors, and an act with an error can trade
    or offer.
    """
    seats = np.arange(2)[:, None]
    open_ = market.proposer >= 0
    own = of_seat(market.stock, seat)
    accepts = act.accept & open_
    pays = jnp.all(own >= market.ask)
    if rules == "textarena":
        refused, trades = accepts & ~pays, accepts & pays
        closes = trades
    else:
        addressed = open_ & (market.proposer != seat)
        delivers = jnp.all(of_seat(market.stock, market.proposer) >= market.give)
        refused = accepts & ~(addressed & (pays | ~delivers))
        trades = accepts & addressed & pays & delivers
        closes = addressed & (trades | (act.accept & ~delivers) | (act.deny & ~act.accept))
    # The same seat on both sides: no goods move.
    sides = (seats == market.proposer).astype(jnp.int32) - (seats == seat)
    stock = market.stock + jnp.where(trades, sides * (market.ask - market.give), 0)

    looked_at = act.offers & ~(refused & (spare <= 0))
    readable = jnp.any(act.give > 0) & jnp.any(act.ask > 0)
    owned = jnp.all(of_seat(stock, seat) >= act.give)
    places = looked_at & readable & owned
    kept = open_ & ~closes
    after = Market(
        stock=stock,
        proposer=jnp.where(places, seat, jnp.where(kept, market.proposer, -1)),
        give=jnp.where(places, act.give, jnp.where(kept, market.give, 0)),
        ask=jnp.where(places, act.ask, jnp.where(kept, market.ask, 0)),
    )
    errors = refused.astype(jnp.int32) + (looked_at & ~places)
    said = jnp.where(act.deny & open_, DENIED, PASSED)
    did = jnp.where(places, OFFERED, jnp.where(trades, ACCEPTED, said))
    return Answer(after, errors, jnp.where((errors > 0) & ~places & ~trades, NOTHING, did))


def gains(market: Market, start: jax.Array, values: jax.Array) -> jax.Array:
    """Gain of each seat's goods in its own values since the start, i32[2]."""
    return jnp.sum((market.stock - start) * values, axis=1)
