"""Minibatches: rows of several sources dealt out, units of rows kept together."""

from typing import TypeVar

import chex
import jax
import jax.numpy as jnp

from agentrl.devices.placement import along_data

RowTree = TypeVar("RowTree", bound=chex.ArrayTree)


def check_minibatches(source: str, rows: int, minibatches: int, unit: int) -> None:
    """ValueError unless minibatches divide the units of `unit` rows that a source has."""
    if rows % (minibatches * unit):
        together = f" (of which {unit} neighbours stay together)" if unit > 1 else ""
        raise ValueError(
            f"config.learner.minibatches={minibatches} does not divide the {rows} rows of source "
            f"{source!r}{together}; change one of the two"
        )


def shuffled_rows(
    learnt: jax.Array,
    key: jax.Array,
    minibatches: int,
    *,
    unit: int,
    microbatch: int | None,
) -> jax.Array | None:
    """The rows of shuffled minibatches by number, i32[minibatches, R / minibatches].

    None: one minibatch, of all rows in their order. learnt: bool[R, L], positions that something is
    learnt from. unit: neighbouring rows that stay together, in their order. With microbatches the
    rows that are learnt from are dealt out evenly, so that each minibatch leaves out as many empty
    ones.
    """
    if minibatches == 1:
        return None
    count = learnt.shape[0]
    order = jax.random.permutation(key, count // unit)
    if microbatch is not None:
        empty = ~jnp.any(learnt.reshape(count // unit, -1), axis=1)
        order = order[jnp.argsort(empty[order], stable=True)]
        order = order.reshape(-1, minibatches).T
    order = order.reshape(minibatches, -1)
    if unit > 1:
        order = (order[..., None] * unit + jnp.arange(unit)).reshape(minibatches, -1)
    return order


def take_rows(example: RowTree, order: jax.Array | None) -> RowTree:
    """The rows of these numbers i32[...], or all of them."""
    if order is None:
        return example
    return along_data(jax.tree.map(lambda x: x[order], example))
