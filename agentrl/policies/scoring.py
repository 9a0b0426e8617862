"""What the learner asks of every policy: how likely its tokens are now, and what is trained."""

from collections.abc import Callable
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from agentrl.losses.categorical import categorical_log_prob, entropy

# Logits that exist at once: 256 MiB of float32.
LOGITS = 2**26


class Scored(NamedTuple):
    """Scores of rows [R, L] under given parameters.

    logp: f32[R, L], log-probability of the token under the distribution that is sampled from.
    entropy: f32[R, L], entropy of that distribution.
    value: f32[R, L], the critic's value of what the token's turn was acted from; 0 without critic.
    """

    logp: jax.Array
    entropy: jax.Array
    value: jax.Array


def score_logits(logits: jax.Array, tokens: jax.Array, value: jax.Array) -> Scored:
    """Scores of tokens [R, L] from the logits [R, L, V] of their distributions."""
    return Scored(categorical_log_prob(logits, tokens), entropy(logits), value)


def in_chunks(
    score: Callable[..., Scored],
    vocab_size: int,
    *arrays: jax.Array | None,
    limit: int = LOGITS,
) -> Scored:
    """`score` of arrays [R, L, ...], over so many positions at a time that logits stay few.

    score: (*arrays at some positions) -> their scores, through vocab_size logits for each. limit:
    logits at once, though never less than those of all rows at one position. With more than one
    chunk the backward pass computes each chunk's logits again.
    """
    rows, length = arrays[0].shape[:2]
    size = max(1, limit // (rows * vocab_size))
    if size >= length:
        return score(*arrays)
    count = -(-length // size)
    # Chunks as equal as they can be.
    size = -(-length // count)

    def cut(x):
        x = jnp.pad(x, [(0, 0), (0, count * size - length)] + [(0, 0)] * (x.ndim - 2), mode="edge")
        return jnp.moveaxis(x.reshape(rows, count, size, *x.shape[2:]), 1, 0)

    chunks = jax.tree.map(cut, arrays)
    out = jax.lax.map(lambda chunk: jax.checkpoint(score)(*chunk), chunks)
    return jax.tree.map(lambda x: jnp.moveaxis(x, 0, 1).reshape(rows, -1)[:, :length], out)


def split(params: chex.ArrayTree, frozen: tuple[str, ...]) -> tuple[chex.ArrayTree, dict]:
    """(what is trained, what is not) of parameters; `join` puts them together again.

    frozen: entries of params, a dict then, which are not trained.
    """
    if not frozen:
        return params, {}
    trained = {name: value for name, value in params.items() if name not in frozen}
    return trained, {name: value for name, value in params.items() if name in frozen}


def join(trained: chex.ArrayTree, frozen: dict) -> chex.ArrayTree:
    """The parameters that `split` has split."""
    return {**trained, **frozen} if frozen else trained
