"""Losses of imitation, one value per position."""

import jax

from agentrl.declarations import averaged
from agentrl.losses.arrays import masked


def behaviour_cloning(logp: jax.Array, mask: jax.Array | None = None) -> jax.Array:
    """Negative log-likelihood of the demonstrated reply, -log pi (SFT).

    Args:
      logp: [R, L], log-probability of the demonstration under the policy.
      mask: bool[R, L], positions to read; None for all.

    Returns:
      f32[R, L], 0 where mask is False.
    """
    return -masked(mask, logp)[0]


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
