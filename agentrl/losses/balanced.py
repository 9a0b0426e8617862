"""AEPO: clipping that keeps gradients, and advantages larger where the policy is uncertain."""

import jax
import jax.numpy as jnp

from agentrl.checks import ROUNDING, check_range
from agentrl.losses.arrays import WithMetrics, log_ratio, masked
from agentrl.losses.policy import check_bounds, pessimistic


def entropy_weighted(
    advantage: jax.Array,
    entropy: jax.Array,
    mask: jax.Array | None = None,
    *,
    entropy_weight: float = 0.2,
) -> jax.Array:
    """Advantages scaled by how uncertain the policy is: A (1 + entropy_weight z(H)).

    z standardises the entropies of all positions where mask is True (deviation with n - 1; 0 where
    they are equal up to float32 rounding). Beyond z = -1 / entropy_weight the sign of the advantage
    changes.

    Args:
      advantage, entropy: [R, L]; entropy in nats.
      mask: bool[R, L], positions to read; None for all.
      entropy_weight: at least 0; with 0 nothing changes.

    Returns:
      f32[R, L], 0 where mask is False, gradient stopped.

    Raises:
      ValueError: a negative entropy_weight.
    """
    check_range("entropy_weighted entropy_weight", entropy_weight, 0.0)
    advantage, entropy = masked(mask, advantage, entropy)
    there = jnp.ones(entropy.shape, bool) if mask is None else mask
    count = jnp.maximum(jnp.sum(there), 1)
    mean = jnp.sum(entropy) / count
    # The first mean is off by a rounding error of the sum, which the second pass takes away.
    mean = mean + jnp.sum(jnp.where(there, entropy - mean, 0.0)) / count
    away = jnp.where(there, entropy - mean, 0.0)
    constant = jnp.max(jnp.abs(away)) <= ROUNDING * jnp.max(jnp.abs(entropy))
    variance = jnp.sum(jnp.square(away)) / jnp.maximum(count - 1, 1)
    spread = jnp.sqrt(jnp.where(constant, 1.0, variance))
    z = jnp.where(constant, 0.0, away / spread)
    return jax.lax.stop_gradient(advantage * (1.0 + entropy_weight * z))


def aepo(
    logp: jax.Array,
    old_logp: jax.Array,
    advantage: jax.Array,
    entropy: jax.Array,
    mask: jax.Array | None = None,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    dual_clip: float | None = 3.0,
    entropy_weight: float = 0.2,
) -> WithMetrics:
    """Entropy-balanced policy optimisation: PPO's loss whose clipped good actions keep a gradient.

    The value is that of `clipped_surrogate` with the advantages of `entropy_weighted`. Where A > 0
    and rho > 1 + clip_high, the bound is (1 + clip_high) rho / sg(rho) and not a constant, and the
    gradient to logp is -A (1 + clip_high) instead of 0; elsewhere it is PPO's.

    Args:
      logp, old_logp, advantage: [R, L]. The log-ratio is held within +-20.
      entropy: [R, L], of the policy in nats; no gradient flows into it.
      mask: bool[R, L], positions to read; None for all. With microbatches entropies are
        standardised in each microbatch, as in the code that was read.
      clip_low, clip_high, dual_clip: as for `clipped_surrogate`.
      entropy_weight: 0 leaves the advantages as they are.

    Returns:
      f32[R, L], 0 where mask is False. The metric `clip_fraction` counts all positions beyond their
      bound.

    Raises:
      ValueError: a negative bound or weight, or dual_clip <= 1.

    References:
      Dong et al. (2025), Agentic entropy-balanced policy optimization,
      https://arxiv.org/abs/2510.14545. A fork's copy of its two files was read, the authors' own
      release was not; its recorded values are tests. All positions are treated so, whatever their
      entropy. Its balanced rollouts are `agentrl.methods.branching.branching`'s, with `sharpness`.
    """
    check_bounds("aepo", clip_low, clip_high, dual_clip)
    advantage = entropy_weighted(advantage, entropy, mask, entropy_weight=entropy_weight)
    logp, old_logp = masked(mask, logp, old_logp)
    ratio = jnp.exp(log_ratio(logp, old_logp))
    _, clipped = pessimistic(ratio, advantage, clip_low, clip_high, dual_clip)
    upper = (1.0 + clip_high) * ratio / jax.lax.stop_gradient(ratio)
    good = jnp.where(ratio > 1.0 + clip_high, upper, ratio)
    bad = jnp.where(ratio < 1.0 - clip_low, 1.0 - clip_low, ratio)
    if dual_clip is not None:
        bad = jnp.where(bad > dual_clip, dual_clip, bad)
    return -advantage * jnp.where(advantage < 0, bad, good), {"clip_fraction": clipped}
