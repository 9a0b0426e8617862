"""LUFFY: off-policy rows whose likelihood is raised where it is still small."""

import jax
import jax.numpy as jnp

from agentrl.checks import check_range
from agentrl.losses.arrays import masked


def shaped_imitation(
    logp: jax.Array, mask: jax.Array | None = None, *, gamma: float = 0.1
) -> jax.Array:
    """The shaped off-policy term for rows of an expert, -f(pi) with f(x) = x / (x + gamma).

    It is the policy-gradient loss -f(rho) A with A = 1 and the expert's probabilities taken as 1,
    so that rho = pi, unclipped. The gradient to logp is -gamma pi / (pi + gamma)^2: largest at pi =
    gamma, falling to 0 for actions that the policy gives no chance and small for those that it
    takes already. `behaviour_cloning` has -1 everywhere; as gamma grows, gamma times this term
    tends to the unshaped -pi.

    Args:
      logp: [R, L], log-probability under the policy.
      mask: bool[R, L], positions to read; None for all.
      gamma: > 0, the probability at which the gradient is largest (0.1).

    Returns:
      f32[R, L] in [-1, 0], 0 where mask is False.

    Raises:
      ValueError: gamma is not above 0.

    References:
      Yan et al. (2025), Learning to reason under off-policy guidance (LUFFY),
      https://arxiv.org/abs/2504.14945 (recalled, not read). There the expert's rows stand in the
      groups of the policy's own and are credited with them; here they are credited with 1, and the
      term's weight takes the place of their advantage.
    """
    check_range("shaped_imitation gamma", gamma, 0.0, above=True)
    (shown,) = masked(mask, logp)
    chance = jnp.exp(shown)
    loss = -chance / (chance + gamma)
    return loss if mask is None else jnp.where(mask, loss, 0.0)
