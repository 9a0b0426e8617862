"""Attention of the decoder: rotary positions, and weighted means over keys and values."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np

# A score that no key survives; finite, so that a row without any key gives numbers.
MASKED = -1e30


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


def rotate(x: jax.Array, positions: jax.Array, frequency: np.ndarray) -> jax.Array:
    """Turns the pairs (i, i + hd / 2) of x [..., heads, hd] by positions [...] * frequency."""
    angle = positions[..., None, None].astype(jnp.float32) * frequency
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    turned = jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
    return turned.astype(x.dtype)


def visible(query: jax.Array, key: jax.Array, window: int | None) -> jax.Array:
    """Which keys a query sees: positions [..., L], [..., S] -> bool[..., L, S]."""
    distance = query[..., :, None] - key[..., None, :]
    seen = distance >= 0
    return seen if window is None else seen & (distance < window)


def attend(
    q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array, soft_cap: float | None
) -> jax.Array:
    """Grouped-query attention; q is scaled already.

    q [B, L, H, hd], k and v [B, S, K, hd] with K dividing H, mask bool[B or 1, L, S] ->
    [B, L, H, hd]. Scores and weights are float32.
    """
    batch, length, heads, head_dim = q.shape
    q = q.reshape(batch, length, k.shape[2], heads // k.shape[2], head_dim)
    scores = jnp.einsum("blkgd,bskd->bkgls", q, k, preferred_element_type=jnp.float32)
    if soft_cap is not None:
        scores = soft_cap * jnp.tanh(scores / soft_cap)
    weights = jax.nn.softmax(jnp.where(mask[:, None, None], scores, MASKED), axis=-1)
    out = jnp.einsum("bkgls,bskd->blkgd", weights.astype(v.dtype), v)
    return out.reshape(batch, length, heads, head_dim)
