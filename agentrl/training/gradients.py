"""Gradients of a batch, summed over microbatches that leave out rows without anything to learn."""

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp


def gradients(
    loss_of: Callable[[chex.ArrayTree, Any], tuple[jax.Array, Any]],
    params: chex.ArrayTree,
    batch: Any,
    trained: jax.Array,
    microbatch: int | None,
) -> tuple[jax.Array, Any, chex.ArrayTree]:
    """(loss, metrics, gradients) of a batch of R rows, each a sum over its microbatches.

    Args:
      loss_of: (params, part of the batch) -> (loss, metrics), where the losses and metrics of the
        parts add up to those of the whole.
      trained: bool[R], rows that the loss reads.
      microbatch: rows in a forward and backward pass, a divisor of R; None for all at once. The
        trained rows are moved to the front, and the passes end with the last of them: memory is
        that of one microbatch, and empty rows cost nothing.
    """
    function = jax.value_and_grad(loss_of, has_aux=True)
    if microbatch is None:
        (loss, metrics), grads = function(params, batch)
        return loss, metrics, grads
    order = jnp.argsort(~trained, stable=True)
    count = jnp.sum(trained, dtype=jnp.int32)
    batch = jax.tree.map(lambda x: x[order], batch)

    def part(i):
        return jax.tree.map(
            lambda x: jax.lax.dynamic_slice_in_dim(x, i * microbatch, microbatch), batch
        )

    def add(i, total):
        return jax.tree.map(jnp.add, total, function(params, part(i)))

    shapes = jax.eval_shape(function, params, part(0))
    nothing = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
    passes = (count + microbatch - 1) // microbatch
    (loss, metrics), grads = jax.lax.fori_loop(0, passes, add, nothing)
    return loss, metrics, grads
