"""Attention of the decoder: rotary position embeddings (RoPE), and attention over a KV cache."""

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.devices.placement import platform

# The score of a masked key; finite, so that a row without keys gives numbers.
MASKED = -1e30


@dataclasses.dataclass(frozen=True)
class RopeScaling:
    """RoPE frequencies for contexts longer than in pretraining (Llama 3.1).

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
    """Radians per position, f32[head_dim / 2]: theta^(-2i / head_dim), scaled."""
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
    """Cosine and sine of the RoPE angles at some positions, f32[..., 1, hd / 2] each."""

    cos: jax.Array
    sin: jax.Array


def rotation(positions: jax.Array, frequency: np.ndarray, size: int) -> Rotation:
    """RoPE cosine and sine at positions i32[...].

    size: exclusive bound on positions. On a CPU they are looked up in a table if that is small
    enough to be a constant: XLA would compute the functions anew for every query and key head in
    every layer, a sixth of the time of prefill, and a barrier does not prevent that. On
    accelerators they cost nothing, and XLA would fold the look-up into a constant for all rows.
    """
    if size * frequency.size > 2**20 or platform() != "cpu":
        angle = positions[..., None, None].astype(jnp.float32) * frequency
        return Rotation(jnp.cos(angle), jnp.sin(angle))
    table = np.arange(size, dtype=np.float32)[:, None, None] * frequency
    # Unused positions may exceed the size: they get the last entry.
    return Rotation(
        *(jnp.asarray(x).at[positions].get(mode="clip") for x in (np.cos(table), np.sin(table)))
    )


def rotate(x: jax.Array, by: Rotation) -> jax.Array:
    """Applies RoPE to the pairs (i, i + hd / 2) of x [..., heads, hd]."""
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    turned = [first * by.cos - second * by.sin, second * by.cos + first * by.sin]
    return jnp.concatenate(turned, axis=-1).astype(x.dtype)


def visible(query: jax.Array, key: jax.Array, window: int | None) -> jax.Array:
    """Attention mask: query positions [..., L], key positions [..., S] -> bool[..., L, S]."""
    distance = query[..., :, None] - key[..., None, :]
    seen = distance >= 0
    return seen if window is None else seen & (distance < window)


class Span(NamedTuple):
    """Range of cache slots that some query attends to, [first, end): i32[] each."""

    low: jax.Array
    high: jax.Array


def span(first: jax.Array, count: jax.Array, window: int | None) -> Span:
    """Range that queries at positions first[b] ... first[b] + count[b] - 1 attend to; i32[B]
    each."""
    some = count > 0
    high = jnp.max(jnp.where(some, first + count, 0))
    if window is None:
        return Span(jnp.zeros_like(high), high)
    return Span(jnp.min(jnp.where(some, first - window + 1, high)), high)


def attend(
    q: jax.Array,
    keys: Sequence[jax.Array],
    values: Sequence[jax.Array],
    mask: Callable[[int, int], jax.Array],
    *,
    soft_cap: float | None = None,
    span: Span | None = None,
    layer: jax.Array | None = None,
) -> jax.Array:
    """Grouped-query attention, softmax(q k) v, over one segment of keys and values after another.

    q [B, L, H, hd], already scaled; segments of keys [B, K, hd, S_i] and values [B, K, S_i, hd]
    with K dividing H; mask: (first slot, end slot) -> bool[B or 1, L, slots]. Returns [B, L, H,
    hd]. layer: i32[]; segments are those of all layers, [B, layers, K, ...], of which this one is
    read. Segments outside of `span` are skipped: on a CPU decoding is bound by the memory bandwidth
    for keys and values. Scores and sums are float32.

    The running maximum and sum are those of M. Milakov and N. Gimelshein, "Online normalizer
    calculation for softmax", 2018, https://arxiv.org/abs/1805.02867. Keys have the slots as last
    axis, so that both products run along rows in memory; with the layout of values, decoding on a
    CPU took more than twice the time.
    """
    batch, length, heads, head_dim = q.shape
    kv_heads = keys[0].shape[-3]
    group = heads // kv_heads
    q = q.reshape(batch, length, kv_heads, group, head_dim).transpose(0, 2, 3, 1, 4)
    q = q.reshape(batch, kv_heads, group * length, head_dim)

    def read(k, v, base):
        """For one segment: the largest score, and the sums of weights and of weighted values."""
        if layer is not None:
            k, v = (jax.lax.dynamic_index_in_dim(x, layer, 1, keepdims=False) for x in (k, v))
        scores = jnp.einsum("bkld,bkds->bkls", q, k, preferred_element_type=jnp.float32)
        if soft_cap is not None:
            scores = soft_cap * jnp.tanh(scores / soft_cap)
        scores = scores.reshape(batch, kv_heads, group, length, -1)
        scores = jnp.where(mask(base, base + v.shape[2])[:, None, None], scores, MASKED)
        scores = scores.reshape(batch, kv_heads, group * length, -1)
        most = jax.lax.stop_gradient(jnp.max(scores, axis=-1, keepdims=True))
        weights = jnp.exp(scores - most)
        out = jnp.einsum(
            "bkls,bksd->bkld", weights.astype(v.dtype), v, preferred_element_type=jnp.float32
        )
        return most, jnp.sum(weights, axis=-1, keepdims=True), out

    def add(k, v, base, carry):
        most, *sums = carry
        peak, *parts = read(k, v, base)
        more = jnp.maximum(most, peak)
        shrink, scale = jnp.exp(most - more), jnp.exp(peak - more)
        return more, *(x * shrink + y * scale for x, y in zip(sums, parts, strict=True))

    if len(keys) == 1:
        _, total, out = read(keys[0], values[0], 0)
    else:
        nothing = jnp.zeros((*q.shape[:3], 1), jnp.float32)
        carry = (nothing + MASKED, nothing, jnp.zeros(q.shape, jnp.float32))
        base = 0
        for k, v in zip(keys, values, strict=True):
            step = functools.partial(add, k, v, base)
            if span is None:
                carry = step(carry)
            else:
                seen = (span.low < base + v.shape[-2]) & (span.high > base)
                carry = jax.lax.cond(seen, step, lambda carry: carry, carry)
            base += v.shape[-2]
        _, total, out = carry
    # If no segment was read, the sum is 0, and the result is arbitrary but finite.
    out = (out / jnp.where(total > 0, total, 1.0)).astype(q.dtype)
    out = out.reshape(batch, kv_heads, group, length, head_dim).transpose(0, 3, 1, 2, 4)
    return out.reshape(batch, length, heads, head_dim)


def attend_causal(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    *,
    window: int | None = None,
    soft_cap: float | None = None,
) -> jax.Array:
    """Causal attention within rows.

    q [B, L, H, hd], already scaled, k and v [B, P + L, K, hd]: queries are of the last L
    positions.

    Blocks of queries (at most 8, of at least 64) are multiplied only with keys that are visible to
    some of them: almost half of the scores are not computed.
    """
    length, before = q.shape[1], k.shape[1] - q.shape[1]
    index = jnp.arange(k.shape[1], dtype=jnp.int32)[None]
    keys, values = (x.transpose(0, 2, 1, 3) for x in (k, v))
    size = max(64, -(-length // 8))
    out = []
    for start in range(0, length, size):
        rows = slice(start, start + size)
        first = 0 if window is None else max(0, before + start - window + 1)
        end = before + min(start + size, length)
        seen = visible(index[:, before + start : end], index[:, first:end], window)
        # Cut before they are turned: the gradients of the parts are padded and added along whole
        # rows in memory, which is a tenth of a CPU's forward and backward pass.
        segment = (keys[:, :, first:end].swapaxes(2, 3),), (values[:, :, first:end],)
        out.append(attend(q[:, rows], *segment, lambda *_, seen=seen: seen, soft_cap=soft_cap))
    return jnp.concatenate(out, axis=1)


def attend_flash(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    *,
    window: int | None = None,
    implementation: str = "cudnn",
) -> jax.Array:
    """`attend_causal` by cuDNN's flash attention: on NVIDIA's GPUs, bfloat16, no soft cap.

    Scores stay on the chip in both passes: T. Dao 2023, "FlashAttention-2",
    https://arxiv.org/abs/2307.08691. implementation="xla" computes the same on any platform,
    without cuDNN.
    """
    length = q.shape[1]
    # JAX supports gradients for even lengths only. The padded position is masked.
    q, k, v = (jnp.pad(x, ((0, 0), (0, length % 2), (0, 0), (0, 0))) for x in (q, k, v))
    # JAX counts the positions to the left of the query, excluding its own.
    size = None if window is None else (window - 1, 0)
    out = jax.nn.dot_product_attention(
        q, k, v, scale=1.0, is_causal=True, local_window_size=size, implementation=implementation
    )
    return out[:, :length]
