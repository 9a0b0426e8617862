"""The decoder's KV cache.

Letters as in `agentrl.policies.decoder`.
"""

import functools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from flax import struct

from agentrl.devices.placement import BATCH, place, platform
from agentrl.policies.attention import span
from agentrl.policies.decoder_config import DecoderConfig


class Cache(struct.PyTreeNode):
    """Keys and values of the tokens of B rows, and the write position of each row.

    k, v: for each layer, segments [B, K, hd, S_i] and [B, K, S_i, hd], whose lengths add up to the
    size; or, for a loop over the layers, once for all, with a second axis of layers. Slot p holds
    position p.
    length: i32[B], tokens that a row has received, which is the position of its next one. Tokens
    beyond the size are dropped: a row with length > size has lost some.
    """

    k: tuple[tuple[jax.Array, ...], ...]
    v: tuple[tuple[jax.Array, ...], ...]
    length: jax.Array

    @property
    def size(self) -> int:
        """S, tokens that a row has room for: the sum of the segments' lengths."""
        return sum(segment.shape[-2] for segment in self.v[0])

    @property
    def stacked(self) -> bool:
        """Whether arrays have an axis of layers."""
        return self.v[0][0].ndim == 5

    @property
    def overflowed(self) -> jax.Array:
        """Rows that received more tokens than their capacity, bool[B]."""
        return self.length > self.size


def decode_unroll(config: DecoderConfig) -> int:
    """Layers per iteration of the loop over them in `extend` and `step`."""
    return config.layers_per_iteration(config.decode_unroll)


def empty_cache(
    config: DecoderConfig, batch: int, size: int, *, segment: int | None = None
) -> Cache:
    """A cache with capacity for `size` tokens in each of `batch` rows.

    segment: number of slots that are read together or, while no row needs them, skipped. Default:
    on a CPU, where branches are free, an eighth of the size (64 for sizes below 256); elsewhere the
    whole size.

    On a CPU the cache is float32 whatever the decoder's dtype: XLA has no scatter of bfloat16 there
    and would convert the whole cache, twice in each layer of each step (SmolLM2-135M, 64 rows: 850
    ms per step, and 132 so).
    """
    if batch < 1 or size < 1:
        raise ValueError(f"empty_cache batch={batch}, size={size}: expected at least 1 of each")
    if segment is None:
        eighth = 16 * math.ceil(size / 128) if size >= 256 else 64
        segment = eighth if platform() == "cpu" else size
    sizes = [min(segment, size - start) for start in range(0, size, segment)]
    unrolled = decode_unroll(config) == config.layers
    lead = (batch, config.kv_heads) if unrolled else (batch, config.layers, config.kv_heads)
    last = config.head_dim
    dtype = jnp.float32 if platform() == "cpu" else config.dtype

    def zeros(shapes):
        return tuple(
            tuple(_placed(jnp.zeros((*lead, *shape), dtype)) for shape in shapes)
            for _ in range(config.layers if unrolled else 1)
        )

    return Cache(
        k=zeros([(last, n) for n in sizes]),
        v=zeros([(n, last) for n in sizes]),
        length=jnp.zeros(batch, jnp.int32),
    )


def _placed(x: jax.Array) -> jax.Array:
    """A segment [B, K, ...] or [B, layers, K, ...] sharded over rows and heads like the
    activations."""
    return place(x, BATCH, "tensor") if x.ndim == 4 else place(x, BATCH, None, "tensor")


def write(
    keys: Sequence[jax.Array],
    values: Sequence[jax.Array],
    k: jax.Array,
    v: jax.Array,
    layer: jax.Array | None,
    start: jax.Array,
    count: jax.Array,
) -> tuple[tuple[jax.Array, ...], tuple[jax.Array, ...]]:
    """Writes the first count[b] of k and v [B, P, K, hd] into slots start[b], ... of row b.

    Segments of one layer, or of all, of which `layer`, i32[], is written, as in
    `agentrl.policies.attention.attend`. Writes beyond the last slot are dropped.
    Segments in which no row writes are returned unchanged: dropping all their updates cost a tenth
    of the decoding time on a CPU. (Under `vmap` all of them are copied.)
    """
    batch, length = k.shape[:2]
    offset = jnp.arange(length, dtype=jnp.int32)
    rows = jnp.arange(batch, dtype=jnp.int32)[:, None]
    first = (rows,) if layer is None else (rows, layer)
    # Keys visible to queries that attend to their own position only.
    new = span(start, count, window=1)

    def put(old, base):
        old_k, old_v = old
        size = old_v.shape[-2]
        slot = start[:, None] + offset - base
        # An index of `size` is out of bounds, and so dropped; a negative one would wrap
        # around.
        slot = jnp.where((offset < count[:, None]) & (slot >= 0), slot, size)
        return (
            _placed(old_k.at[(*first, slice(None), slice(None), slot)].set(k, mode="drop")),
            _placed(old_v.at[(*first, slice(None), slot)].set(v, mode="drop")),
        )

    out, base = [], 0
    for old in zip(keys, values, strict=True):
        size = old[1].shape[-2]
        fill = functools.partial(put, base=base)
        if len(keys) == 1:
            out.append(fill(old))
        else:
            touched = (new.low < base + size) & (new.high > base)
            out.append(jax.lax.cond(touched, fill, lambda old: old, old))
        base += size
    return tuple(zip(*out, strict=True))
