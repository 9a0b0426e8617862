"""Weights for samples of another policy than the one that learns."""

from typing import Literal

import jax
import jax.numpy as jnp

from agentrl.checks import check_choice, check_range
from agentrl.losses.arrays import masked, masked_mean

IMPORTANCE_LEVELS = ("token", "sequence")
ImportanceLevel = Literal["token", "sequence"]


def truncated_importance_weight(
    old_logp: jax.Array,
    behaviour_logp: jax.Array,
    mask: jax.Array,
    *,
    cap: float,
    level: ImportanceLevel = "token",
    normalize: bool = False,
) -> jax.Array:
    """Importance weight of the learner over the sampler, cut off at a cap.

    w = min(exp(old_logp - behaviour_logp), cap) for each position, or with level="sequence" one
    weight per row, w = min(exp(sum_t (old_logp_t - behaviour_logp_t)), cap).

    There are three policies: the sampler (behaviour), whose kernels, precision or weights differ a
    little; the learner before this batch's updates (old); and the learner now. The ratio inside a
    policy loss is of the last two; this weight bridges the first two and multiplies the loss of
    the position. A cap of 1 can only shrink the loss.

    Args:
      old_logp, behaviour_logp: [R, L]; their difference (or its sum) is held within +-20.
      mask: bool[R, L], positions that the policy produced.
      cap: largest weight, > 0 (2 is verl's default).
      level: "token" or "sequence". A row is the sequence: an episode in several rows has a weight
        for each of them.
      normalize: divide by the mean weight of the batch, over positions or over rows by `level`, so
        that the scale of the loss stays. The cap comes first: a weight may end above it.

    Returns:
      f32[R, L], gradient stopped, 0 where mask is False.

    Raises:
      ValueError: unknown `level`; a cap that is not positive.

    References:
      Yao et al. (2025), Your efficient RL framework secretly brings you off-policy RL training.
      verl b178a3c (read and executed).
    """
    check_choice("level", level, IMPORTANCE_LEVELS)
    check_range("truncated_importance_weight cap", cap, 0.0, above=True)
    old_logp, behaviour_logp = masked(mask, old_logp, behaviour_logp)
    difference, counted = old_logp - behaviour_logp, mask
    if level == "sequence":
        difference = jnp.sum(difference, axis=-1, keepdims=True)
        counted = jnp.any(mask, axis=-1, keepdims=True)
    weight = jnp.minimum(jnp.exp(jnp.clip(difference, -20.0, 20.0)), cap)
    if normalize:
        mean = masked_mean(weight, counted)
        weight = weight / jnp.where(mean > 0, mean, 1.0)
    return jax.lax.stop_gradient(jnp.where(mask, weight, 0.0))
