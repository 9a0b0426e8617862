"""DataMind: imitation and RL in one loss, whose shares follow half a cosine over the run."""

from typing import Literal, get_args

import jax
import jax.numpy as jnp

from agentrl.checks import check_choice, check_range
from agentrl.losses.arrays import WithMetrics, masked
from agentrl.losses.policy import clipped_surrogate

ImitationWeighting = Literal["one", "p", "p(1-p)"]


def cosine_share(
    progress: jax.Array, *, peak: float = 0.9, valley: float = 0.05, until: float = 1.0
) -> jax.Array:
    """DataMind's share of imitation: half a cosine from `peak` to `valley`, then constant.

    valley + (peak - valley) (1 + cos(pi min(progress / until, 1))) / 2.

    Args:
      progress: f32[], share of the updates that are done.
      peak, valley: shares in [0, 1].
      until: share of the updates at which the valley is reached, above 0 (released: 350 steps).

    Returns:
      f32[].

    Raises:
      ValueError: a share outside [0, 1], or `until` not above 0.

    References:
      Qiao et al. (2025), DataMind, https://arxiv.org/abs/2509.25084; code zjunlp/DataMind 4b49ef0
      (read; the schedule's worked numbers are a test).
    """
    check_range("cosine_share peak", peak, 0.0, 1.0)
    check_range("cosine_share valley", valley, 0.0, 1.0)
    check_range("cosine_share until", until, 0.0, above=True)
    done = jnp.minimum(progress / until, 1.0)
    return valley + (peak - valley) * 0.5 * (1.0 + jnp.cos(jnp.pi * done))


def mixed_imitation(
    logp: jax.Array,
    progress: jax.Array,
    mask: jax.Array | None = None,
    *,
    weighting: ImitationWeighting = "one",
    peak: float = 0.9,
    valley: float = 0.05,
    until: float = 1.0,
) -> jax.Array:
    """DataMind's SFT part, mu w (-logp), beside `mixed_surrogate` with (1 - mu).

    Args:
      logp: [R, L], log-probability of the demonstration.
      progress: f32[], share of the updates that are done; mu = `cosine_share`(progress).
      mask: bool[R, L], positions to read; None for all.
      weighting: w of each token, without gradient: "one"; "p", its probability; "p(1-p)".
      peak, valley, until: of `cosine_share`.

    Returns:
      f32[R, L], 0 where mask is False. The two parts are means over their own tokens.

    Raises:
      ValueError: an unknown weighting, or as `cosine_share`.

    References:
      As for `cosine_share`.
    """
    check_choice("weighting", weighting, get_args(ImitationWeighting))
    share = cosine_share(progress, peak=peak, valley=valley, until=until)
    (logp,) = masked(mask, logp)
    p = jax.lax.stop_gradient(jnp.exp(logp))
    weights: dict[str, jax.Array | float] = {"one": 1.0, "p": p, "p(1-p)": p * (1 - p)}
    return -share * weights[weighting] * logp


def mixed_surrogate(
    logp: jax.Array,
    old_logp: jax.Array,
    advantage: jax.Array,
    progress: jax.Array,
    mask: jax.Array | None = None,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    dual_clip: float | None = 10.0,
    peak: float = 0.9,
    valley: float = 0.05,
    until: float = 1.0,
) -> WithMetrics:
    """DataMind's RL part, (1 - mu) times `clipped_surrogate`, beside `mixed_imitation`.

    Args:
      logp, old_logp, advantage, mask, clip_low, clip_high, dual_clip: as for `clipped_surrogate`.
      progress: f32[], with peak, valley and until as for `mixed_imitation`, which must have the
        same.

    Returns:
      f32[R, L], 0 where mask is False. The metric `clip_fraction` is that of `clipped_surrogate`.

    Raises:
      ValueError: as `clipped_surrogate` and `cosine_share`.

    References:
      As for `cosine_share`.
    """
    share = cosine_share(progress, peak=peak, valley=valley, until=until)
    values, metrics = clipped_surrogate(
        logp,
        old_logp,
        advantage,
        mask,
        clip_low=clip_low,
        clip_high=clip_high,
        dual_clip=dual_clip,
    )
    return (1.0 - share) * values, metrics
