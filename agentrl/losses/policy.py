"""Losses of the policy, one value per position; a small loss is a good policy."""

import jax
import jax.numpy as jnp

from agentrl.checks import check_range
from agentrl.losses.arrays import WithMetrics, log_ratio, masked


def reinforce(logp: jax.Array, advantage: jax.Array, mask: jax.Array | None = None) -> jax.Array:
    """The score-function loss, -A log pi.

    Its gradient is the policy gradient where the samples are the policy's own; for others multiply
    by an importance weight (`truncated_importance_weight`). Its value is not a measure of progress.

    Args:
      logp: [R, L], log-probability under the policy.
      advantage: [R, L].
      mask: bool[R, L], positions to read; None for all.

    Returns:
      f32[R, L], 0 where mask is False.

    References:
      Williams (1992), Simple statistical gradient-following algorithms for connectionist
      reinforcement learning, Machine Learning 8.
    """
    logp, advantage = masked(mask, logp, advantage)
    return -jax.lax.stop_gradient(advantage) * logp


def negative_entropy(entropy: jax.Array, mask: jax.Array | None = None) -> WithMetrics:
    """The entropy bonus as a loss, -H; its weight is the entropy coefficient.

    Metrics (Policy):
      entropy: Entropy [nats]; of the policy at the update, per token or action.

    Args:
      entropy: [R, L], of the policy's distribution, in nats.
      mask: bool[R, L], positions to read; None for all.

    Returns:
      f32[R, L], 0 where mask is False. The metric `entropy` is the mean of H per position.
    """
    (entropy,) = masked(mask, entropy)
    return -entropy, {"entropy": entropy}


def clipped_surrogate(
    logp: jax.Array,
    old_logp: jax.Array,
    advantage: jax.Array,
    mask: jax.Array | None = None,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
) -> WithMetrics:
    """PPO's clipped surrogate, with separate bounds and the dual clip.

    l = max(-A rho, -A clip(rho, 1 - clip_low, 1 + clip_high)),  rho = exp(logp - old_logp),

    and with dual_clip = c, l = min(l, -A c) where A < 0, which bounds the loss of an unwanted
    action that the policy has made much more likely since.

    The gradient to logp is -A rho inside the bounds and exactly 0 outside them (A >= 0: rho > 1 +
    clip_high; A < 0: rho < 1 - clip_low or rho > c). A ratio on a bound is inside; max and min
    written as such would halve the gradient there.

    Metrics (Policy):
      clip_fraction: Clipped [share]; trained positions at which the ratio, and so the loss, is
        clipped.

    Args:
      logp: [R, L], log-probability under the policy.
      old_logp: [R, L], the same before this batch's updates. The log-ratio is held within +-20.
      advantage: [R, L].
      mask: bool[R, L], positions to read; None for all.
      clip_low, clip_high: distances of the bounds from 1 (DAPO: 0.2 and 0.28).
      dual_clip: c > 1 (3 in verl and verl-agent), or None for none.

    Returns:
      f32[R, L], 0 where mask is False. The metric `clip_fraction` is the share of positions whose
      gradient is removed; those with A = 0 are never counted. Without dual_clip it is verl's
      pg_clipfrac (which reports the dual clip's share apart); some code bases count |rho - 1| >
      clip whatever the sign of A, which is larger.

    Raises:
      ValueError: a negative bound, or dual_clip <= 1.

    References:
      Schulman et al. (2017), PPO, https://arxiv.org/abs/1707.06347. Ye et al. (2020), Mastering
      complex control in MOBA games with deep reinforcement learning,
      https://arxiv.org/abs/1912.09729 (dual clip). Yu et al. (2025), DAPO,
      https://arxiv.org/abs/2503.14476 (separate bounds). verl b178a3c (read and executed).
    """
    check_bounds("clipped_surrogate", clip_low, clip_high, dual_clip)
    logp, old_logp, advantage = masked(mask, logp, old_logp, advantage)
    ratio = jnp.exp(log_ratio(logp, old_logp))
    values, clipped = pessimistic(ratio, advantage, clip_low, clip_high, dual_clip)
    return values, {"clip_fraction": clipped}


def cispo(
    logp: jax.Array,
    old_logp: jax.Array,
    advantage: jax.Array,
    mask: jax.Array | None = None,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
) -> WithMetrics:
    """CISPO: the score-function loss under a clipped importance weight.

    l = -sg(clip(rho, 1 - clip_low, 1 + clip_high)) A logp,  rho = exp(logp - old_logp).

    The weight is clipped and not the loss, so that every position keeps a gradient, -A clip(rho).
    Its value is not comparable with that of the clipped surrogate.

    Args:
      logp, old_logp, advantage: [R, L]. The log-ratio is held within +-20.
      mask: bool[R, L], positions to read; None for all.
      clip_low, clip_high: distances of the bounds from 1; clip_low=1 leaves only the upper bound,
        which is what the paper tunes (recalled, not read).

    Returns:
      f32[R, L], 0 where mask is False. The metric `clip_fraction` is the share of positions whose
      weight is clipped, with A != 0; their gradient is smaller or larger than unclipped, not 0.

    Raises:
      ValueError: a negative bound.

    References:
      MiniMax (2025), MiniMax-M1, https://arxiv.org/abs/2506.13585. verl b178a3c (read and
      executed).
    """
    check_bounds("cispo", clip_low, clip_high, None)
    logp, old_logp, advantage = masked(mask, logp, old_logp, advantage)
    ratio = jnp.exp(log_ratio(logp, old_logp))
    weight = jnp.clip(ratio, 1 - clip_low, 1 + clip_high)
    clipped = ((ratio < 1 - clip_low) | (ratio > 1 + clip_high)) & (advantage != 0)
    return -jax.lax.stop_gradient(weight * advantage) * logp, {"clip_fraction": clipped}


def check_bounds(function: str, clip_low: float, clip_high: float, dual_clip: float | None) -> None:
    """Refuses bounds outside their ranges; raises ValueError."""
    check_range(f"{function} clip_low", clip_low, 0.0)
    check_range(f"{function} clip_high", clip_high, 0.0)
    check_range(f"{function} dual_clip", dual_clip, 1.0, above=True)


def pessimistic(
    ratio: jax.Array,
    advantage: jax.Array,
    clip_low: float,
    clip_high: float,
    dual_clip: float | None,
) -> tuple[jax.Array, jax.Array]:
    """The pessimistic one of -A ratio and -A clip(ratio), and at most -A dual_clip where A < 0.

    The second array, bool[R, L], is where the gradient is removed; never where A = 0. Written as a
    selection between the ratio and constants: see `clipped_surrogate` for the reason.
    """
    advantage = jax.lax.stop_gradient(advantage)
    bound = jnp.where(advantage < 0, 1.0 - clip_low, 1.0 + clip_high)
    outside = jnp.where(advantage < 0, ratio < 1 - clip_low, ratio > 1 + clip_high)
    held = jnp.where(outside, bound, ratio)
    if dual_clip is not None:
        above = (advantage < 0) & (ratio > dual_clip)
        held, outside = jnp.where(above, dual_clip, held), outside | above
    return -advantage * held, outside & (advantage != 0)
