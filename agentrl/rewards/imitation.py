"""Rewards that a discriminator gives."""

import jax
import jax.numpy as jnp

from agentrl.checks import check_range, check_streams


def imitation_reward(
    reward: jax.Array,
    mask: jax.Array,
    imitation: jax.Array,
    *,
    known: float = 1.0,
    coefficient: float = 1.0,
) -> jax.Array:
    """The known reward of the task and a learnt one: known r + coefficient c.

    With a discriminator D, c is its logit, log D - log(1 - D): 0, 1.3863, -1.3863 for D = .5, .8,
    .2. With known=0 it is plain adversarial imitation.

    Args:
      reward: f32[N, T], r, the environment's.
      mask: bool[N, T], the agent acted.
      imitation: f32[N, T], c, of component `agentrl.methods.discriminator`.
      known, coefficient: at least 0.

    Returns:
      f32[N, T], 0 where mask is False.

    Raises:
      ValueError: a negative number, or arrays of other shapes or types.

    References:
      Glazer et al. (2024), MT-CSIRL, https://arxiv.org/abs/2402.11367 (summaries).
    """
    check_range("imitation_reward known", known, 0.0)
    check_range("imitation_reward coefficient", coefficient, 0.0)
    check_streams("imitation_reward", mask, numbers={"reward": reward, "imitation": imitation})
    return jnp.where(mask, known * reward + coefficient * imitation, 0.0)
