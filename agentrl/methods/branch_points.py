"""Where episodes branch: by how much more uncertain the policy is than in its first turn."""

import jax
import jax.numpy as jnp


def branch_probability(
    difference: jax.Array,
    run: jax.Array | int = 0,
    *,
    alpha: float = 0.5,
    beta: float = 0.2,
    penalty: float = 0.0,
) -> jax.Array:
    """(alpha + beta * difference) (1 - penalty * run), in [0, 1].

    difference: f32[...], a turn's entropy less that of the first turn. run: i32[...], turns just
    before that were branch points.
    """
    less = jnp.maximum(1.0 - penalty * run, 0.0)
    return jnp.clip((alpha + beta * difference) * less, 0.0, 1.0)


def initial_budget(
    root: jax.Array, tool: jax.Array, budget: int, *, sharpness: float | jax.Array = 0.5
) -> jax.Array:
    """AEPO's number of a group's episodes that begin at the start, i32[...]; the rest may branch.

    clip(floor(budget sigmoid(sharpness (root - tool))) + 1, 1, budget), as in the code; the paper
    has no 1. Where first replies are uncertain, more episodes begin anew, and where replies to
    results are, more branch.

    Args:
      root, tool: f32[...], mean entropy of first replies, and of replies to results.
      budget: episodes of a group.
    """
    share = jax.nn.sigmoid(sharpness * (root - tool))
    return jnp.clip(jnp.floor(budget * share).astype(jnp.int32) + 1, 1, budget)


def within_budget(branches: jax.Array, most: jax.Array) -> jax.Array:
    """The first `most` of each group's branches: bool[G, K], i32[G] -> bool[G, K]."""
    return branches & (jnp.cumsum(branches, axis=1) <= most[:, None])


def first_entropy(entropy: jax.Array, count: jax.Array, *, first_tokens: int) -> jax.Array:
    """Mean over the first tokens of replies, [...]; 0 for empty ones.

    entropy: f32[..., G], of the distribution that each token was drawn from. count: i32[...], the
    tokens of each reply.
    """
    size = jnp.minimum(count, first_tokens)
    there = jnp.arange(entropy.shape[-1]) < size[..., None]
    return jnp.sum(jnp.where(there, entropy, 0.0), axis=-1) / jnp.maximum(size, 1)
