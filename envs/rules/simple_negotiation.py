"""Two traders and one open offer over R resources: TextArena's rules and SPIRAL's."""

import types
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

# What the last act came to.
NOTHING, PASSED, DENIED, ACCEPTED, OFFERED = range(5)

RESOURCES = types.MappingProxyType(
    {"textarena": ("wheat", "wood", "sheep", "brick", "ore"), "spiral": ("wood", "gold")}
)
# TextArena: what one of each resource is worth on average; drawn within a fifth, from 5 to 40.
BASE = np.array([5, 10, 15, 25, 40], np.int32)
LOWEST, HIGHEST = np.maximum(BASE - BASE // 5, 5), np.minimum(BASE + BASE // 5, 40)
STOCK = (5, 25)
# SPIRAL: what each seat holds of each resource, and what one is worth to it.
SPIRAL_STOCK = 10
SPIRAL_VALUES = np.array([[5, 15], [15, 5]], np.int32)


class Market(NamedTuple):
    """Who holds what, and the offer that is open.

    stock: i32[2, R]. proposer: i32[], whose offer is open, -1 for none. give, ask: i32[R], what
    the proposer would hand over and get; 0 where no offer is open.
    """

    stock: jax.Array
    proposer: jax.Array
    give: jax.Array
    ask: jax.Array


class Act(NamedTuple):
    """All that one reply says.

    accept, deny, offers: bool[], an answer and an offer can stand in one reply. give, ask: i32[R]
    of the offer; one that gives or asks nothing is an offer that could not be read.
    """

    accept: jax.Array
    deny: jax.Array
    offers: jax.Array
    give: jax.Array
    ask: jax.Array


class Answer(NamedTuple):
    """What an act came to: the market after it, errors i32[] from 0 to 2, did i32[]."""

    market: Market
    errors: jax.Array
    did: jax.Array


def opening(stock: jax.Array) -> Market:
    """Nobody has offered anything."""
    none = jnp.zeros(stock.shape[-1], jnp.int32)
    return Market(stock, jnp.full((), -1, jnp.int32), none, none)


def draw(rules: str, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Stock and values at the start, i32[2, R] each; SPIRAL's are always the same."""
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

    TextArena ("textarena"): who accepts must own what is asked for; anybody may, the proposer of
    the offer too, which closes it without effect. Anything but accepting leaves the offer open.
    SPIRAL ("spiral"): only the one to whom the offer was made may accept it, and must own what is
    asked for; it is closed by a denial of theirs, and when the proposer has no longer what was
    offered, which is no error.
    Both: an offer replaces the open one; its goods must be owned. An answer to no offer is none.

    spare: i32[], errors that are still forgiven. If the answer was one too many, the offer is not
    looked at any more; otherwise it is, so that one act can hold two errors, and an act with an
    error can trade or offer.
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
    # The same seat on both sides: nothing moves.
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
    """How much each seat's goods have gained in its own values since the start, i32[2]."""
    return jnp.sum((market.stock - start) * values, axis=1)
