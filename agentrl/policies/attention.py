"""Attention of the decoder: rotary positions, and weighted means over keys and values."""

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

# A score that no key survives; finite, so that a row without any key gives numbers.
MASKED = -1e30
LAST = np.iinfo(np.int32).max


@dataclasses.dataclass(frozen=True)
class RopeScaling:
    """Rotary frequencies for contexts longer than the model was first trained on (Llama 3.1).

    With wavelength w = 2 pi / frequency and c = original_max_position, a frequency is kept for
    w < c / high_freq_factor, divided by `factor` for w > c / low_freq_factor, and in between is
    (1 - s) f / factor + s f with s = (c / w - low) / (high - low).
    original_max_position=None divides all of them (linear scaling, as in Gemma 3).
    """

    factor: float
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_position: int | None = None

    def __post_init__(self):
        if self.factor < 1:
            raise ValueError(f"rope scaling factor={self.factor}: expected at least 1")
        if self.low_freq_factor >= self.high_freq_factor:
            raise ValueError(
                f"rope scaling low_freq_factor={self.low_freq_factor}, high_freq_factor="
                f"{self.high_freq_factor}: expected the first below the second"
            )


def frequencies(head_dim: int, theta: float, scaling: RopeScaling | None) -> np.ndarray:
    """Radians a position, f32[head_dim / 2]: theta^(-2i / head_dim), scaled."""
    plain = theta ** (-np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    if scaling is None:
        return plain.astype(np.float32)
    if scaling.original_max_position is None:
        return (plain / scaling.factor).astype(np.float32)
    turns = scaling.original_max_position * plain / (2 * math.pi)
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    share = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return ((1 - share) * plain / scaling.factor + share * plain).astype(np.float32)


class Rotation(NamedTuple):
    """Cosine and sine of the angles by which positions turn, f32[..., 1, hd / 2] each."""

    cos: jax.Array
    sin: jax.Array


def rotation(positions: jax.Array, frequency: np.ndarray) -> Rotation:
    """The rotation at positions i32[...]."""
    angle = positions[..., None, None].astype(jnp.float32) * frequency
    # Without the barrier XLA computes them anew for every head, query and key, in every layer.
    return jax.lax.optimization_barrier(Rotation(jnp.cos(angle), jnp.sin(angle)))


def rotate(x: jax.Array, by: Rotation) -> jax.Array:
    """Turns the pairs (i, i + hd / 2) of x [..., heads, hd]."""
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    turned = [first * by.cos - second * by.sin, second * by.cos + first * by.sin]
    return jnp.concatenate(turned, axis=-1).astype(x.dtype)


def visible(query: jax.Array, key: jax.Array, window: int | None) -> jax.Array:
    """Which keys a query sees: positions [..., L], [..., S] -> bool[..., L, S]."""
    distance = query[..., :, None] - key[..., None, :]
    seen = distance >= 0
    return seen if window is None else seen & (distance < window)


class Span(NamedTuple):
    """First position that some query sees, and the one behind the last: i32[] each."""

    low: jax.Array
    high: jax.Array


def span(first: jax.Array, count: jax.Array, window: int | None) -> Span:
    """What queries at positions first[b] ... first[b] + count[b] - 1 see; i32[B] each."""
    some = count > 0
    low = jnp.where(some, first if window is None else first - window + 1, LAST)
    high = jnp.max(jnp.where(some, first + count, 0))
    return Span(jnp.min(low) if window is not None else jnp.zeros_like(high), high)


def attend(
    q: jax.Array,
    keys: Sequence[jax.Array],
    values: Sequence[jax.Array],
    mask: jax.Array,
    soft_cap: float | None,
    span: Span | None = None,
) -> jax.Array:
    """Grouped-query attention; q is scaled already.

    q [B, L, H, hd]; segments keys [B, K, hd, S_i] and values [B, K, S_i, hd], whose lengths add up
    to S, with K dividing H; mask bool[B or 1, L, S] -> [B, L, H, hd]. Scores and weights are
    float32. Segments outside of `span` are not read.

    Keys lie with the slots last, so that both products run along rows in memory: on a CPU decoding
    is then more than twice as fast as with keys that lie as values do.
    """
    batch, length, heads, head_dim = q.shape
    kv_heads = keys[0].shape[1]
    q = q.reshape(batch, length, kv_heads, heads // kv_heads, head_dim)
    q = q.transpose(0, 2, 3, 1, 4).reshape(batch, kv_heads, -1, head_dim)
    sizes = [v.shape[2] for v in values]
    ends = list(itertools.accumulate(sizes))

    def if_seen(i, function):
        if span is None or len(keys) == 1:
            return function()
        seen = (span.low < ends[i]) & (span.high > ends[i] - sizes[i])
        nothing = jax.eval_shape(function)
        return jax.lax.cond(seen, function, lambda: jnp.zeros(nothing.shape, nothing.dtype))

    def score(i):
        def dot():
            return jnp.einsum("bkld,bkds->bkls", q, keys[i], preferred_element_type=jnp.float32)

        return if_seen(i, dot)

    scores = jnp.concatenate([score(i) for i in range(len(keys))], axis=-1)
    if soft_cap is not None:
        scores = soft_cap * jnp.tanh(scores / soft_cap)
    scores = scores.reshape(batch, kv_heads, -1, length, ends[-1])
    weights = jax.nn.softmax(jnp.where(mask[:, None, None], scores, MASKED), axis=-1)
    weights = weights.reshape(*q.shape[:3], ends[-1]).astype(q.dtype)

    def mix(i):
        part = weights[..., ends[i] - sizes[i] : ends[i]]
        return if_seen(i, lambda: jnp.einsum("bkls,bksd->bkld", part, values[i]))

    out = sum(mix(i) for i in range(len(values)))
    out = out.reshape(batch, kv_heads, -1, length, head_dim).transpose(0, 3, 1, 2, 4)
    return out.reshape(batch, length, heads, head_dim)


def write(
    keys: Sequence[jax.Array],
    values: Sequence[jax.Array],
    k: jax.Array,
    v: jax.Array,
    start: jax.Array,
    count: jax.Array,
) -> tuple[tuple[jax.Array, ...], tuple[jax.Array, ...]]:
    """Puts the first count[b] of k and v [B, P, K, hd] into slots start[b], ... of row b.

    Segments as in `attend`. What falls behind the last slot is dropped.
    """
    batch, length = k.shape[:2]
    offset = jnp.arange(length, dtype=jnp.int32)
    rows = jnp.arange(batch, dtype=jnp.int32)[:, None]
    out_keys, out_values, base = [], [], 0
    for old_k, old_v in zip(keys, values, strict=True):
        size = old_v.shape[2]
        slot = start[:, None] + offset - base
        # An index of `size` is out of bounds, and so dropped; a negative one would wrap around.
        slot = jnp.where((offset < count[:, None]) & (slot >= 0), slot, size)
        out_keys.append(old_k.at[rows, :, :, slot].set(k, mode="drop"))
        out_values.append(old_v.at[rows, :, slot].set(v, mode="drop"))
        base += size
    return tuple(out_keys), tuple(out_values)
