"""Losses of imitation, one value per position."""

import jax
import jax.numpy as jnp

from agentrl.declarations import averaged
from agentrl.losses.arrays import masked
from agentrl.losses.policy import clipped_surrogate
from agentrl.streams import THOUGHT


def behaviour_cloning(logp: jax.Array, mask: jax.Array | None = None) -> jax.Array:
    """Negative log-likelihood of the demonstrated reply, -log pi (SFT).

    Args:
      logp: [R, L], log-probability of the demonstration under the policy.
      mask: bool[R, L], positions to read; None for all.

    Returns:
      f32[R, L], 0 where mask is False.
    """
    return -masked(mask, logp)[0]


@averaged(over="observed")
def observation_loss(logp: jax.Array, mask: jax.Array | None = None) -> jax.Array:
    """World-model loss of a language policy: -log pi of what it reads.

    Args:
      logp: [R, L], log-probability of the tokens of the rows.
      mask: bool[R, L], tokens of observations, an annotation `observed`; None for all.

    Returns:
      f32[R, L], 0 where mask is False.

    References:
      Sarkar et al. (2025), https://arxiv.org/abs/2502.06060: weight 1, beside reinforcement
      learning on the tokens that are written. Code SocialDeductionLLM 0cac8fa (read).
    """
    return behaviour_cloning(logp, mask)


@averaged(over="correct")
def corrected_behaviour_cloning(logp: jax.Array, mask: jax.Array | None = None) -> jax.Array:
    """Behaviour cloning of corrected episodes, without the steps that were wrong (STeP).

    In a self-reflected episode a teacher marks wrong steps and writes a reflection and a corrected
    action behind them. Wrong steps stay visible as context and are not imitated: with per-turn
    probabilities .5, .25, .8, .9, of which the second is wrong, the loss is 0.340550 instead of
    0.601986. It is averaged over the positions that count, so that rows with many wrong steps do
    not take smaller steps. Episodes with an error that cannot be corrected are to be left out.

    Args:
      logp: [R, L], log-probability of the episode under the policy.
      mask: bool[R, L], an annotation `correct`: trained positions of turns that are not marked
        wrong (reflections, corrections and right steps).

    Returns:
      f32[R, L], 0 where mask is False.

    References:
      STeP (2025), https://arxiv.org/abs/2505.20023. From notes on the paper; neither its text nor
      code was read.
    """
    return behaviour_cloning(logp, mask)


def thought_cloning(logp: jax.Array, span: jax.Array, mask: jax.Array | None = None) -> jax.Array:
    """Behaviour cloning of thoughts alone, -log pi in thoughts and 0 in actions (GTR).

    The mean is over all positions where mask is True.

    Args:
      logp: [R, L], log-probability of the corrected reply under the policy.
      span: i32[R, L], which of `agentrl.streams.SPANS` a position belongs to.
      mask: bool[R, L], positions to read; None for all.

    Returns:
      f32[R, L], 0 where mask is False.

    References:
      GTR (2025), https://arxiv.org/abs/2503.08525, from notes on the paper, in which a corrector
      rewrites the thoughts of the policy's own episodes (DAgger): component
      `agentrl.methods.thought_corrections`. Of another source, such as the expert's with
      config.expert.thoughts, off its own path by config.expert.noise, the thoughts are cloned, too.
    """
    return jnp.where(span == THOUGHT, -masked(mask, logp)[0], 0.0)


def self_imitation(
    logp: jax.Array,
    old_logp: jax.Array,
    recalibrated_advantage: jax.Array,
    replay_weight: jax.Array | float,
    mask: jax.Array | None = None,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    dual_clip: float | None = 10.0,
) -> jax.Array:
    """The clipped surrogate of replayed good episodes, times the weight of the replay (SPEAR).

    replay_weight * clipped_surrogate(logp, old_logp, max(recalibrated_advantage, 0)).

    Args:
      logp: [R, L], log-probability under the policy.
      old_logp: [R, L], the same when the episode was sampled, updates ago.
      recalibrated_advantage: [R, L], of component `agentrl.methods.self_imitation`.
      replay_weight: f32[], of the same.
      mask: bool[R, L], positions to read; None for all.
      clip_low, clip_high, dual_clip: as for `clipped_surrogate`.

    Returns:
      f32[R, L], 0 where mask is False.

    Raises:
      ValueError: as `clipped_surrogate`.

    References:
      SPEAR (2025), https://arxiv.org/abs/2509.22601; read in code, where Clip-Cov is the clip.
    """
    values, _ = clipped_surrogate(
        logp,
        old_logp,
        jnp.maximum(recalibrated_advantage, 0.0),
        mask,
        clip_low=clip_low,
        clip_high=clip_high,
        dual_clip=dual_clip,
    )
    return replay_weight * values
