"""Chunked computation of logits and attention scores, which do not fit in memory at once."""

from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp

from agentrl.devices.placement import devices, platform

# Numbers that exist at once on a device: 256 MiB of float32 on a CPU. Accelerators have more
# memory, and each chunk there re-reads the weights and accumulates their gradient.
ON_CPU, ELSEWHERE = 2**26, 2**28


def in_chunks(
    function: Callable[..., chex.ArrayTree],
    *arrays: jax.Array | None,
    width: int,
    limit: int | None = None,
) -> chex.ArrayTree:
    """Applies `function` to arrays [B, L, ...] in chunks of positions, to limit memory.

    function: (*arrays at some positions) -> arrays [B, L', ...] of these positions, with `width`
    intermediate numbers per position. limit: such numbers at once on a device (default: by
    platform), but at least those of all rows at one position. With more than one chunk, the
    backward pass recomputes each chunk.
    """
    rows, length = arrays[0].shape[:2]
    if limit is None:
        limit = ON_CPU if platform() == "cpu" else ELSEWHERE
    size = max(1, limit * devices() // (rows * width))
    if size >= length:
        return function(*arrays)
    count = -(-length // size)
    # Chunks of nearly equal size.
    size = -(-length // count)

    def cut(x):
        x = jnp.pad(x, [(0, 0), (0, count * size - length)] + [(0, 0)] * (x.ndim - 2), mode="edge")
        return jnp.moveaxis(x.reshape(rows, count, size, *x.shape[2:]), 1, 0)

    def put(x):
        return jnp.moveaxis(x, 0, 1).reshape(rows, count * size, *x.shape[3:])[:, :length]

    chunks = jax.tree.map(cut, arrays)
    return jax.tree.map(put, jax.lax.map(lambda chunk: jax.checkpoint(function)(*chunk), chunks))
