"""A ring of rows that is filled round by round, and draws from it."""

import chex
import jax
import jax.numpy as jnp
from flax import struct

from agentrl.methods.by_turn import empty_like
from agentrl.streams import Rows


class Ring(struct.PyTreeNode):
    """Up to M rows of the last rounds.

    rows: [M, L]. since: i32[M], the round in which a row came; -1 for an empty place. head: i32[],
    the place of the next one. round: i32[], rounds so far.
    """

    rows: Rows
    since: jax.Array
    head: jax.Array
    round: jax.Array


def empty(like: chex.ArrayTree, size: int) -> Ring:
    """A ring of M = `size` places without rows. like: rows, or their shapes and types."""
    zero = jnp.zeros((), jnp.int32)
    return Ring(empty_like(like, size), jnp.full(size, -1, jnp.int32), zero, zero)


def put(ring: Ring, rows: Rows) -> Ring:
    """The ring after a round, with the rows that have something to learn from in the places of the
    oldest; of more than M the first M."""
    size = ring.since.shape[0]
    good = jnp.any(rows.loss_mask, axis=1)
    number = jnp.cumsum(good, dtype=jnp.int32) - 1
    place = jnp.where(good & (number < size), (ring.head + number) % size, size)  # dropped

    def store(all_, new):
        return all_.at[place].set(new, mode="drop")

    more = jnp.minimum(jnp.sum(good, dtype=jnp.int32), size)
    return Ring(
        rows=jax.tree.map(store, ring.rows, rows),
        since=ring.since.at[place].set(ring.round, mode="drop"),
        head=(ring.head + more) % size,
        round=ring.round + 1,
    )


def usable(ring: Ring, rounds: int) -> jax.Array:
    """The rows of the last `rounds` rounds, or of all for 0, bool[M]."""
    there = ring.since >= 0
    return there & (ring.since >= ring.round - rounds) if rounds else there


def drawn(ring: Ring, there: jax.Array, count: int, key: jax.Array) -> Rows:
    """`count` of the rows bool[M], each drawn evenly from all; or all in their places for 0."""
    rows = ring.rows
    if count:
        order = jnp.argsort(~there, stable=True)
        number = jax.random.randint(key, (count,), 0, jnp.maximum(jnp.sum(there), 1))
        at = order[number]
        rows, there = jax.tree.map(lambda x: x[at], (rows, there))
    own = jnp.arange(there.shape[0], dtype=jnp.int32)
    return rows.replace(stream=own, loss_mask=rows.loss_mask & there[:, None])
