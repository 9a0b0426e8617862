"""Losses of the policy, one value per position; a small loss is a good policy."""

import jax
import jax.numpy as jnp

from agentrl.checks import check_range
from agentrl.declarations import measured
from agentrl.losses.arrays import log_ratio, masked, masked_mean


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


def negative_entropy(entropy: jax.Array, mask: jax.Array | None = None) -> jax.Array:
    """The entropy bonus as a loss, -H; its weight is the entropy coefficient.

    Args:
      entropy: [R, L], of the policy's distribution, in nats.
      mask: bool[R, L], positions to read; None for all.

    Returns:
      f32[R, L], 0 where mask is False. The metric `entropy` is the mean of H per position.
    """
    return -_masked_entropy(entropy, mask)


def _masked_entropy(entropy: jax.Array, mask: jax.Array | None = None) -> jax.Array:
    return masked(mask, entropy)[0]


measured(entropy=_masked_entropy)(negative_entropy)


def clipped(
    logp: jax.Array,
    old_logp: jax.Array,
    advantage: jax.Array,
    mask: jax.Array | None = None,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
) -> jax.Array:
    """Positions whose gradient the clipped surrogate removes, bool[R, L].

    A position with A = 0 is never counted. Without dual_clip the share of these positions is verl's
    pg_clipfrac (which reports the dual clip's share apart); some code bases count |rho - 1| > clip
    whatever the sign of A, which is larger.

    Args:
      logp, old_logp, advantage, mask, clip_low, clip_high, dual_clip: as for `clipped_surrogate`.

    Returns:
      bool[R, L], False where mask is False.

    Raises:
      ValueError: as `clipped_surrogate`.
    """
    check_bounds("clipped_surrogate", clip_low, clip_high, dual_clip)
    logp, old_logp, advantage = masked(mask, logp, old_logp, advantage)
    ratio = jnp.exp(log_ratio(logp, old_logp))
    outside = outside_bounds(ratio, advantage, clip_low, clip_high)
    if dual_clip is not None:
        outside |= (advantage < 0) & (ratio > dual_clip)
    return outside & (advantage != 0)


@measured(clip_fraction=clipped)
def clipped_surrogate(
    logp: jax.Array,
    old_logp: jax.Array,
    advantage: jax.Array,
    mask: jax.Array | None = None,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
) -> jax.Array:
    """PPO's clipped surrogate, with separate bounds and the dual clip.

    l = max(-A rho, -A clip(rho, 1 - clip_low, 1 + clip_high)),  rho = exp(logp - old_logp),

    and with dual_clip = c, l = min(l, -A c) where A < 0, which bounds the loss of an unwanted
    action that the policy has made much more likely since.

    The gradient to logp is -A rho inside the bounds and exactly 0 outside them (A >= 0: rho > 1 +
    clip_high; A < 0: rho < 1 - clip_low or rho > c). A ratio on a bound is inside; max and min
    written as such would halve the gradient there.

    Args:
      logp: [R, L], log-probability under the policy.
      old_logp: [R, L], the same before this batch's updates. The log-ratio is held within +-20.
      advantage: [R, L].
      mask: bool[R, L], positions to read; None for all.
      clip_low, clip_high: distances of the bounds from 1 (DAPO: 0.2 and 0.28).
      dual_clip: c > 1 (3 in verl and verl-agent), or None for none.

    Returns:
      f32[R, L], 0 where mask is False.

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
    return pessimistic(ratio, advantage, clip_low, clip_high, dual_clip)


def cispo_clipped(
    logp: jax.Array,
    old_logp: jax.Array,
    advantage: jax.Array,
    mask: jax.Array | None = None,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
) -> jax.Array:
    """Positions whose importance weight CISPO clips, bool[R, L]; never where A = 0.

    Their gradient is smaller or larger than unclipped, not 0, and the sign of A does not matter.

    Args:
      logp, old_logp, advantage, mask, clip_low, clip_high: as for `cispo`.

    Returns:
      bool[R, L], False where mask is False.

    Raises:
      ValueError: a negative bound.
    """
    check_bounds("cispo", clip_low, clip_high, None)
    logp, old_logp, advantage = masked(mask, logp, old_logp, advantage)
    ratio = jnp.exp(log_ratio(logp, old_logp))
    return ((ratio < 1 - clip_low) | (ratio > 1 + clip_high)) & (advantage != 0)


@measured(clip_fraction=cispo_clipped)
def cispo(
    logp: jax.Array,
    old_logp: jax.Array,
    advantage: jax.Array,
    mask: jax.Array | None = None,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
) -> jax.Array:
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
      weight is clipped.

    Raises:
      ValueError: a negative bound.

    References:
      MiniMax (2025), MiniMax-M1, https://arxiv.org/abs/2506.13585. verl b178a3c (read and
      executed).
    """
    check_bounds("cispo", clip_low, clip_high, None)
    logp, old_logp, advantage = masked(mask, logp, old_logp, advantage)
    weight = jnp.clip(jnp.exp(log_ratio(logp, old_logp)), 1 - clip_low, 1 + clip_high)
    return -jax.lax.stop_gradient(weight * advantage) * logp


def clip_fraction(
    logp: jax.Array,
    old_logp: jax.Array,
    advantage: jax.Array,
    mask: jax.Array | None = None,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
) -> jax.Array:
    """Share of positions whose gradient the clipped surrogate removes, f32[] in [0, 1].

    Args:
      logp, old_logp, advantage, mask, clip_low, clip_high, dual_clip: as for `clipped_surrogate`.

    Returns:
      f32[], the mean of `clipped` over the positions where mask is True.

    Raises:
      ValueError: as `clipped_surrogate`.
    """
    options = {"clip_low": clip_low, "clip_high": clip_high, "dual_clip": dual_clip}
    return masked_mean(clipped(logp, old_logp, advantage, mask, **options), mask)


def check_bounds(function: str, clip_low: float, clip_high: float, dual_clip: float | None) -> None:
    """Refuses bounds outside their ranges; raises ValueError."""
    check_range(f"{function} clip_low", clip_low, 0.0)
    check_range(f"{function} clip_high", clip_high, 0.0)
    check_range(f"{function} dual_clip", dual_clip, 1.0, above=True)


def outside_bounds(
    ratio: jax.Array, advantage: jax.Array, clip_low: float, clip_high: float
) -> jax.Array:
    """Whether the ratio has passed the bound that its advantage pushes it towards."""
    return jnp.where(advantage < 0, ratio < 1 - clip_low, ratio > 1 + clip_high)


def pessimistic(
    ratio: jax.Array,
    advantage: jax.Array,
    clip_low: float,
    clip_high: float,
    dual_clip: float | None,
) -> jax.Array:
    """The pessimistic one of -A ratio and -A clip(ratio), and at most -A dual_clip where A < 0.

    Written as a selection between the ratio and constants: see `clipped_surrogate` for the reason.
    """
    advantage = jax.lax.stop_gradient(advantage)
    bound = jnp.where(advantage < 0, 1.0 - clip_low, 1.0 + clip_high)
    ratio = jnp.where(outside_bounds(ratio, advantage, clip_low, clip_high), bound, ratio)
    if dual_clip is not None:
        ratio = jnp.where((advantage < 0) & (ratio > dual_clip), dual_clip, ratio)
    return -advantage * ratio
