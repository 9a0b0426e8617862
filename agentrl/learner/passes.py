"""Passes over a batch, a microbatch at a time: gradients, and log-probabilities without them."""

import functools
from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp

from agentrl.devices.placement import along_data
from agentrl.streams import Rows


def gradients(
    loss_of: Callable[[chex.ArrayTree, Any], tuple[jax.Array, Any]],
    params: chex.ArrayTree,
    batch: Any,
    length: jax.Array,
    *,
    longest: int,
    microbatch: int | None,
    lengths: int = 1,
    unit: int = 1,
    head: Callable[[Any, int], Any] | None = None,
) -> tuple[jax.Array, Any, chex.ArrayTree]:
    """(loss, metrics, gradients) of a batch of R rows, each a sum over its microbatches.

    Args:
      loss_of: (params, part of the batch) -> (loss, metrics), where the losses and metrics of the
        parts add up to those of the whole.
      length: i32[R], leading positions of each row that the loss depends on; 0 for none.
      longest: positions of the rows, an upper bound of `length`.
      microbatch: rows per forward and backward pass, a divisor of R; None for all at once. Rows
        go in order of falling length, and the passes end with the last that has any: memory is that
        of one microbatch, and empty rows cost nothing.
      lengths: a pass is cut to the shortest of `lengths` evenly spaced sizes that holds its longest
        row. Each size is compiled.
      unit: neighbouring rows that stay in one microbatch.
      head: (part of the batch, l) -> its first l positions; needed for more than one length.
    """
    function = jax.value_and_grad(loss_of, has_aux=True)
    if microbatch is None:
        (loss, metrics), grads = function(params, batch)
        return loss, metrics, grads
    if unit > 1:
        of_unit = jnp.max(length.reshape(-1, unit), axis=1)
        order = jnp.argsort(-of_unit, stable=True)
        order = (order[:, None] * unit + jnp.arange(unit)).reshape(-1)
        length = jnp.repeat(of_unit, unit)
    else:
        order = jnp.argsort(-length, stable=True)
    length = length[order]
    batch = jax.tree.map(lambda x: x[order], batch)

    def part(i):
        cut = jax.tree.map(
            lambda x: jax.lax.dynamic_slice_in_dim(x, i * microbatch, microbatch), batch
        )
        return along_data(cut)

    sizes = [-(-longest * (i + 1) // lengths) for i in range(lengths)]
    passes = [
        functools.partial(lambda size, x: function(params, head(x, size)), size)
        for size in sizes[:-1]
    ]
    passes.append(functools.partial(function, params))

    def add(i, total):
        which = jnp.searchsorted(jnp.asarray(sizes), length[i * microbatch])
        return jax.tree.map(jnp.add, total, jax.lax.switch(which, passes, part(i)))

    shapes = jax.eval_shape(function, params, part(0))
    zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
    count = jnp.sum(length > 0, dtype=jnp.int32)
    (loss, metrics), grads = jax.lax.fori_loop(0, -(-count // microbatch), add, zeros)
    return loss, metrics, grads


def log_probs(policy: Any, params: chex.ArrayTree, rows: Rows, microbatch: int | None) -> jax.Array:
    """Log-probability of each position, f32[R, L], computed `microbatch` rows at a time.

    None, or a number that does not divide the rows: all at once.
    """
    count = rows.tokens.shape[0]
    if microbatch is None or count % microbatch:
        return policy.score(params, rows).logp
    parts = jax.tree.map(lambda x: x.reshape(-1, microbatch, *x.shape[1:]), rows)
    logp = jax.lax.map(lambda part: policy.score(params, part).logp, along_data(parts, 1))
    return logp.reshape(rows.tokens.shape)
