"""Chunked computation of logits and attention scores, which do not fit in memory at once."""

from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp

from agentrl.devices.placement import devices, platform

# Numbers that exist at once on a device: 256 MiB of float32 on a CPU. Accelerators have more
# memory, and each chunk there re-reads the weights and accumulates their gradient.
ON_CPU, ELSEWHERE = 2**26, 2**28


# Where results at some positions only are needed: chunks per row, positions of all rows together in
# a chunk at least (each chunk re-reads the weights), and numbers below which nothing is left out.
PARTS, SMALLEST, DIRECT = 8, 256, 2**20


def in_chunks(
    function: Callable[..., chex.ArrayTree],
    *arrays: jax.Array | None,
    width: int,
    limit: int | None = None,
    needed: jax.Array | None = None,
) -> chex.ArrayTree:
    """Applies `function` to arrays [B, L, ...] in chunks of positions, to limit memory.

    function: (*arrays at some positions) -> arrays [B, L', ...] of these positions, with `width`
    intermediate numbers per position. limit: such numbers at once on a device (default: by
    platform), but at least those of all rows at one position. With more than one chunk, the
    backward pass recomputes each chunk. needed: bool[B, L], positions whose results are needed: the
    results of the others are those or 0. The needed positions of each row are put together, and
    chunks without any are skipped.
    """
    rows, length = arrays[0].shape[:2]
    if limit is None:
        limit = ON_CPU if platform() == "cpu" else ELSEWHERE
    size = max(1, limit * devices() // (rows * width))
    if needed is not None and rows * length * width > min(DIRECT, limit) * devices():
        parts = max(-(-length // PARTS), SMALLEST * devices() // rows)
        return _where_needed(function, arrays, needed, min(size, parts, length))
    if size >= length:
        return function(*arrays)
    return _mapped(jax.checkpoint(function), arrays, size)


def _where_needed(function, arrays, needed, size):
    """Results of `function` at the needed positions, of which those of each row come first."""
    order = jnp.argsort(~needed, axis=1, stable=True)

    def at(x, index):
        return jnp.take_along_axis(x, index.reshape(*index.shape, *[1] * (x.ndim - 2)), axis=1)

    @jax.checkpoint
    def chunk(some, *parts):
        shapes = jax.eval_shape(function, *parts)
        nothing = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
        return jax.lax.cond(jnp.any(some), function, lambda *_: nothing, *parts)

    sorted_arrays = jax.tree.map(lambda x: at(x, order), (needed, *arrays))
    out, back = _mapped(chunk, sorted_arrays, size), jnp.argsort(order, axis=1)
    return jax.tree.map(lambda x: at(x, back), out)


def _mapped(function, arrays, size):
    """`function` of chunks of nearly equal size, at most `size` positions."""
    rows, length = arrays[0].shape[:2]
    count = -(-length // size)
    size = -(-length // count)

    def cut(x):
        x = jnp.pad(x, [(0, 0), (0, count * size - length)] + [(0, 0)] * (x.ndim - 2), mode="edge")
        return jnp.moveaxis(x.reshape(rows, count, size, *x.shape[2:]), 1, 0)

    def put(x):
        return jnp.moveaxis(x, 0, 1).reshape(rows, count * size, *x.shape[3:])[:, :length]

    chunks = jax.tree.map(cut, arrays)
    return jax.tree.map(put, jax.lax.map(lambda chunk: function(*chunk), chunks))
