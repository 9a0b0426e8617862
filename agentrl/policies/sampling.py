"""Sampling of tokens from logits, and the resulting distribution."""

import dataclasses
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp


@dataclasses.dataclass(frozen=True)
class Sampling:
    """A sampling method.

    temperature: logits are divided by it.
    top_k: keep the k likeliest tokens, and those as likely as the last of them (0: all).
    top_p: keep the likeliest tokens until their mass reaches p (1: all).
    min_p: keep tokens at least min_p times as likely as the likeliest (0: all).
    greedy: take the likeliest token, reported under the distribution of temperature 1.

    The order is that of transformers: temperature, top_k, top_p among what is left, min_p. Tokens
    that are exactly as likely as the last one kept by top_p are kept too, where transformers keeps
    those that its sort puts first.

    A distribution that top_k, top_p or min_p cut is recorded with each token, as the set of tokens
    that could be drawn, so that the learner scores the same distribution: `Rows.legal`,
    bool[R, L, V]. That is R * L * V bytes. It is meant for small vocabularies: 6,400 rows of 3,042
    positions with 151,936 tokens would take 3 terabytes. With a published model's vocabulary draw
    from the whole distribution (the defaults), for which nothing is recorded.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    greedy: bool = False

    def __post_init__(self):
        if not (self.temperature > 0 and math.isfinite(self.temperature)):
            raise ValueError(
                f"sampling temperature={self.temperature}: expected a positive number; for the "
                "likeliest token use greedy=True"
            )
        if self.top_k < 0:
            raise ValueError(f"sampling top_k={self.top_k}: expected at least 0 (0 keeps all)")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"sampling top_p={self.top_p}: expected more than 0, at most 1")
        if not 0 <= self.min_p < 1:
            raise ValueError(f"sampling min_p={self.min_p}: expected at least 0, less than 1")


def _scaled(logits: jax.Array, sampling: Sampling) -> jax.Array:
    scale = 1.0 if sampling.greedy else sampling.temperature
    return logits.astype(jnp.float32) / scale


def _and(a: jax.Array | None, b: jax.Array) -> jax.Array:
    return b if a is None else a & b


def kept(
    logits: jax.Array, sampling: Sampling, allowed: jax.Array | None = None
) -> jax.Array | None:
    """Sampling mask: tokens that can be drawn, bool[..., V]; None if all can.

    logits [..., V]; allowed: bool[..., V], tokens allowed by a constraint, at least one per row.
    """
    scores = _scaled(logits, sampling)
    keep = allowed
    if allowed is not None:
        scores = jnp.where(allowed, scores, -jnp.inf)
    size = scores.shape[-1]
    if 0 < sampling.top_k < size:
        least = jax.lax.top_k(scores, sampling.top_k)[0][..., -1:]
        keep = _and(keep, scores >= least)
        scores = jnp.where(keep, scores, -jnp.inf)
    if sampling.top_p < 1:
        ordered = -jnp.sort(-jax.nn.softmax(scores), axis=-1)
        before = jnp.cumsum(ordered, axis=-1) - ordered
        # The first is always kept: no mass precedes it.
        within = (before < sampling.top_p).at[..., 0].set(True)
        count = jnp.sum(within, axis=-1, keepdims=True, dtype=jnp.int32)
        least = jnp.take_along_axis(ordered, count - 1, axis=-1)
        keep = _and(keep, jax.nn.softmax(scores) >= least)
        scores = jnp.where(keep, scores, -jnp.inf)
    if sampling.min_p > 0:
        most = jnp.max(scores, axis=-1, keepdims=True)
        keep = _and(keep, scores >= most + math.log(sampling.min_p))
    return keep


def distribution(logits: jax.Array, sampling: Sampling, kept: jax.Array | None) -> jax.Array:
    """Log-probabilities f32[..., V] of the sampling distribution; -inf for masked tokens.

    log softmax over the kept tokens of logits / temperature (of logits, if `greedy`).
    """
    scores = _scaled(logits, sampling)
    if kept is not None:
        scores = jnp.where(kept, scores, -jnp.inf)
    return jax.nn.log_softmax(scores, axis=-1)


def _weights(
    logits: jax.Array, sampling: Sampling, kept: jax.Array | None
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(scores minus their maximum, their exponentials, sum of these [..., 1]); 0 for masked
    tokens."""
    scores = _scaled(logits, sampling)
    keep = True if kept is None else kept
    most = jnp.max(jnp.where(keep, scores, -jnp.inf), axis=-1, keepdims=True)
    shifted = jnp.where(keep, scores - most, 0.0)
    weights = jnp.where(keep, jnp.exp(shifted), 0.0)
    return shifted, weights, jnp.sum(weights, axis=-1, keepdims=True)


def entropy(logits: jax.Array, sampling: Sampling, kept: jax.Array | None) -> jax.Array:
    """Entropy f32[...] in nats of the distribution sampled from, that of `distribution`.

    logits: [..., V]. kept: bool[..., V], tokens that can be drawn; None: all.
    """
    shifted, weights, total = _weights(logits, sampling, kept)
    mean = jnp.sum(weights * shifted, axis=-1, keepdims=True) / total
    return (jnp.log(total) - mean)[..., 0]


def _first(mask: jax.Array) -> jax.Array:
    """Index of the first True along the last axis; XLA's CPU backend is slow at argmax."""
    size = mask.shape[-1]
    index = jnp.arange(size, dtype=jnp.int32)
    return jnp.min(jnp.where(mask, index, size - 1), axis=-1)


def _pick(uniform: jax.Array, weights: jax.Array) -> jax.Array:
    """Index by inversion: the first whose cumulative weight exceeds uniform * sum, i32[...]."""
    ends = jnp.cumsum(weights, axis=-1)
    after = (ends > uniform[..., None] * ends[..., -1:]) & (weights > 0)
    # By rounding there may be none; an index of weight 0 must not be drawn even then.
    heaviest = weights >= jnp.max(weights, axis=-1, keepdims=True)
    return _first(jnp.where(jnp.any(after, axis=-1, keepdims=True), after, heaviest))


def _likeliest(weights: jax.Array) -> jax.Array:
    return _first(weights >= jnp.max(weights, axis=-1, keepdims=True))


def draw(key: jax.Array, weights: jax.Array) -> jax.Array:
    """Draws an index with probability proportional to weights f32[..., V] >= 0: i32[...].

    key: one for all rows, or one per row, [...], which makes rows independent of each other.

    By inversion in two steps, a block and then a token in it: two uniform numbers per row, where
    the Gumbel trick takes V and their logarithms. Two steps also reduce the error: a float32
    uniform number resolves 2^-23 of the total mass, here divided among sqrt(V) parts instead of V.
    """
    size = weights.shape[-1]
    width = 2 ** math.ceil(math.log2(max(size, 1)) / 2)
    blocks = -(-size // width)
    padding = [(0, 0)] * (weights.ndim - 1) + [(0, blocks * width - size)]
    weights = jnp.pad(weights, padding).reshape(*weights.shape[:-1], blocks, width)
    if key.ndim == 0:
        uniform = jax.random.uniform(key, (2, *weights.shape[:-2]))
    else:
        uniform = jax.vmap(lambda one: jax.random.uniform(one, (2,)), out_axes=1)(key)
    block = _pick(uniform[0], jnp.sum(weights, axis=-1))
    inside = jnp.take_along_axis(weights, block[..., None, None], axis=-2)[..., 0, :]
    return block * width + _pick(uniform[1], inside)


def sample(
    key: jax.Array, logits: jax.Array, sampling: Sampling, allowed: jax.Array | None = None
) -> tuple[jax.Array, jax.Array, jax.Array | None]:
    """Draws tokens: logits [..., V] -> (token i32[...], logp f32[...], kept).

    logp is the token's entry of `distribution`. key: one, or one per row, see `draw`.
    """
    keep = kept(logits, sampling, allowed)
    shifted, weights, total = _weights(logits, sampling, keep)
    if sampling.greedy:
        token = _likeliest(weights)
    else:
        token = draw(key, weights)
    chosen = jnp.take_along_axis(shifted, token[..., None], axis=-1)
    return token, (chosen - jnp.log(total))[..., 0], keep


class SamplingRows(NamedTuple):
    """A sampling method for each of B rows, as arrays: the fields of `Sampling`, [B] each."""

    temperature: jax.Array
    top_k: jax.Array
    top_p: jax.Array
    min_p: jax.Array
    greedy: jax.Array


def sample_rows(
    key: jax.Array, logits: jax.Array, rows: SamplingRows
) -> tuple[jax.Array, jax.Array]:
    """As `sample`, with a sampling method for each row, which may change without compiling anew.

    key: [B], one per row. logits: [B, V]. Returns the tokens i32[B] and the log-probabilities
    f32[B, V] of the distributions they are drawn from, -inf for tokens that are cut.

    Vocabularies are sorted only while some row has top_k, top_p or min_p.
    """
    scale = jnp.where(rows.greedy, 1.0, rows.temperature)
    scores = logits.astype(jnp.float32) / scale[:, None]
    cuts = (rows.top_k > 0) | (rows.top_p < 1) | (rows.min_p > 0)
    everything = jnp.ones(scores.shape, bool)
    keep = jax.lax.cond(jnp.any(cuts), lambda: _kept_rows(scores, rows), lambda: everything)
    shifted, weights, total = _weights(scores, Sampling(), keep)
    token = jnp.where(rows.greedy, _likeliest(weights), draw(key, weights))
    return token, jnp.where(keep, shifted - jnp.log(total), -jnp.inf)


def _kept_rows(scores: jax.Array, rows: SamplingRows) -> jax.Array:
    """`kept` of scaled scores [B, V] by each row's own options: bool[B, V]."""
    size = scores.shape[-1]
    count = jnp.where(rows.top_k > 0, jnp.minimum(rows.top_k, size), size)
    ordered = -jnp.sort(-scores, axis=-1)
    keep = scores >= jnp.take_along_axis(ordered, count[:, None] - 1, axis=-1)
    chances = jax.nn.softmax(jnp.where(keep, scores, -jnp.inf))
    ordered = -jnp.sort(-chances, axis=-1)
    within = jnp.cumsum(ordered, axis=-1) - ordered < rows.top_p[:, None]
    count = jnp.sum(within.at[:, 0].set(True), axis=-1, keepdims=True, dtype=jnp.int32)
    likely = chances >= jnp.take_along_axis(ordered, count - 1, axis=-1)
    keep = keep & (likely | (rows.top_p >= 1)[:, None])
    most = jnp.max(scores, axis=-1, keepdims=True)
    return keep & (scores >= most + jnp.log(rows.min_p)[:, None])
