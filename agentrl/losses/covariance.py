"""Clip-Cov and KL-Cov: entropy kept by the few positions whose update would take most of it."""

import jax
import jax.numpy as jnp

from agentrl.checks import check_range
from agentrl.losses.arrays import WithMetrics, largest, log_ratio, masked
from agentrl.losses.policy import check_bounds, pessimistic


def covariances(logp: jax.Array, advantage: jax.Array, mask: jax.Array | None = None) -> jax.Array:
    """Each position's part of the covariance of log-probability and advantage.

    c = (A - mean(A)) (logp - mean(logp)), with means over all positions where mask is True. Under a
    step of the policy gradient entropy falls by about the mean of c times the step.

    Args:
      logp, advantage: [R, L].
      mask: bool[R, L], positions to read; None for all.

    Returns:
      f32[R, L], 0 where mask is False, gradient stopped.
    """
    logp, advantage = masked(mask, logp, advantage)
    there = jnp.ones(logp.shape, bool) if mask is None else mask
    count = jnp.maximum(jnp.sum(there), 1)
    centred = (advantage - jnp.sum(advantage) / count) * (logp - jnp.sum(logp) / count)
    return jax.lax.stop_gradient(jnp.where(there, centred, 0.0))


def _selected_number(share: float, mask: jax.Array) -> jax.Array:
    """max(1, floor(share * n)) of the n positions; rounding must not take 0.3 * 10 below 3."""
    return jnp.maximum(jnp.floor(share * jnp.sum(mask) * (1 + 1e-6)), 1)


def clip_cov(
    logp: jax.Array,
    old_logp: jax.Array,
    advantage: jax.Array,
    mask: jax.Array | None = None,
    *,
    share: float = 2e-4,
    low: float = 1.0,
    high: float = 5.0,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
) -> WithMetrics:
    """Clip-Cov: PPO's clipped surrogate, with no loss at a few positions of large covariance.

    Candidates have a covariance (`covariances`) between `low` and `high` and are not clipped by
    PPO. Of n positions max(1, floor(share n)) candidates are drawn uniformly; their loss is 0, and
    they count in the mean's divisor. share=0 still takes one; without candidates the loss is PPO's.

    Args:
      logp: [R, L], log-probability under the policy.
      old_logp: [R, L], the same before this batch's updates. The log-ratio is held within +-20.
      advantage: [R, L]. The bounds are in its units: standardised ones are assumed by the defaults.
      mask: bool[R, L], positions to read; None for all. With microbatches means and draws are of
        each microbatch, as in the reference.
      share: of the positions, in [0, 1].
      low, high: bounds of the covariance, both excluded.
      clip_low, clip_high: distances of the ratio's bounds from 1.

    Returns:
      f32[R, L], 0 where mask is False. The metric `clip_fraction` counts the drawn positions, too.

    Raises:
      ValueError: a share outside [0, 1], high < low, or a negative bound of the ratio.

    References:
      Cui et al. (2025), The entropy mechanism of reinforcement learning for reasoning language
      models, https://arxiv.org/abs/2505.22617. verl b178a3c and the authors' code 8850579 (read;
      recorded values are tests). There the draw is of a global generator; here its seed is made of
      the log-probabilities, so that equal inputs give equal losses.
    """
    check_bounds("clip_cov", clip_low, clip_high, None)
    check_range("clip_cov share", share, 0.0, 1.0)
    check_range("clip_cov high", high, low)
    covariance = covariances(logp, advantage, mask)
    there = jnp.ones(logp.shape, bool) if mask is None else mask
    logp, old_logp, advantage = masked(mask, logp, old_logp, advantage)
    ratio = jnp.exp(log_ratio(logp, old_logp))
    values, clipped = pessimistic(ratio, advantage, clip_low, clip_high, None)
    candidates = (covariance > low) & (covariance < high) & ~clipped & there
    # A draw of its own for each batch, without a key: its seed is the batch's log-probabilities.
    seed = jax.lax.bitcast_convert_type(jax.lax.stop_gradient(jnp.sum(logp)), jnp.uint32)
    chance = jax.random.uniform(jax.random.fold_in(jax.random.key(0), seed), logp.shape)
    drawn = largest(chance, candidates, _selected_number(share, there))
    return jnp.where(drawn, 0.0, values), {"clip_fraction": drawn | clipped}


def kl_cov(
    logp: jax.Array,
    old_logp: jax.Array,
    advantage: jax.Array,
    mask: jax.Array | None = None,
    *,
    share: float = 2e-3,
    coefficient: float = 1.0,
) -> jax.Array:
    """KL-Cov: the surrogate without clipping, and a KL penalty where covariance is largest.

      l = -A rho + coefficient |logp - old_logp|  at the max(1, floor(share n)) of n positions with
      the largest covariance (`covariances`),  -A rho elsewhere,  rho = exp(logp - old_logp).

    In the first step on a batch the penalty has no gradient: it is |x| at 0.

    Args:
      logp, old_logp, advantage: [R, L]. The log-ratio is held within +-20.
      mask: bool[R, L], positions to read; None for all.
      share: of the positions, in [0, 1] (published: 2e-3 for 7B models, 2e-4 for 32B).
      coefficient: of the penalty, at least 0. With 0 it is the surrogate without a clip.

    Returns:
      f32[R, L], 0 where mask is False.

    Raises:
      ValueError: a share outside [0, 1], or a negative coefficient.

    References:
      As for `clip_cov`. The authors' own option k_percent is in percent, verl's ratio and this one
      are shares.
    """
    check_range("kl_cov share", share, 0.0, 1.0)
    check_range("kl_cov coefficient", coefficient, 0.0)
    there = jnp.ones(logp.shape, bool) if mask is None else mask
    covariance = covariances(logp, advantage, mask)
    penalised = largest(covariance, there, _selected_number(share, there))
    logp, old_logp, advantage = masked(mask, logp, old_logp, advantage)
    moved = log_ratio(logp, old_logp)
    loss = -jax.lax.stop_gradient(advantage) * jnp.exp(moved)
    # Of the derivatives that |x| has at 0, where every first step is, JAX takes 1; the published
    # code's is 0.
    size = moved * jax.lax.stop_gradient(jnp.sign(moved))
    return loss + jnp.where(penalised, coefficient * size, 0.0)
