"""Which episodes are written: a score for each stream, by functions of arrays of `Streams`.

Of the episodes with a positive score (the largest of their streams) the highest are written, at
most as many as `config.trajectories.most` says, equal ones in the order in which they were played.
A function of one's own is named by its dotted path, as an estimator is.
"""

import jax
import jax.numpy as jnp


def everything(mask: jax.Array) -> jax.Array:
    """All episodes, f32[N]: with `most` the first ones."""
    return jnp.ones(mask.shape[0])


def failures(success: jax.Array, mask: jax.Array) -> jax.Array:
    """Streams in which the task was not solved, f32[N]."""
    return 1.0 - jnp.any(success & mask, axis=1)


def surprising(reward: jax.Array, mask: jax.Array, group: jax.Array) -> jax.Array:
    """How far the return is from the mean of the stream's group, in absolute terms, f32[N]."""
    returns = jnp.sum(jnp.where(mask, reward, 0.0), axis=1)
    acted = jnp.any(mask, axis=1)
    same = (group[:, None] == group) & acted
    mean = jnp.sum(jnp.where(same, returns, 0.0), axis=1) / jnp.maximum(jnp.sum(same, axis=1), 1)
    return jnp.where(acted, jnp.abs(returns - mean), 0.0)
