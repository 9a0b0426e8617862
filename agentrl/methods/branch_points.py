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
    root: jax.Array, tool: jax.Array, budget: int, *, sharpness: float = 0.5
) -> jax.Array:
    """AEPO's number of initial episodes of a group, budget * sigmoid(sharpness (root - tool)).

    root, tool: mean entropy of a first reply, and of replies to results. It says what to set
    `initial` to, which is the same for all groups here; the released scripts do not use it.
    """
    return budget * jax.nn.sigmoid(sharpness * (root - tool))


def first_entropy(entropy: jax.Array, count: jax.Array, *, first_tokens: int) -> jax.Array:
    """Mean over the first tokens of replies, [...]; 0 for empty ones.

    entropy: f32[..., G], of the distribution that each token was drawn from. count: i32[...], the
    tokens of each reply.
    """
    size = jnp.minimum(count, first_tokens)
    there = jnp.arange(entropy.shape[-1]) < size[..., None]
    return jnp.sum(jnp.where(there, entropy, 0.0), axis=-1) / jnp.maximum(size, 1)
