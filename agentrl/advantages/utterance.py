"""ArCHer's advantage of a turn, from twin critics of whole replies."""

import jax
import jax.numpy as jnp

from agentrl.advantages.grouping import as_advantage
from agentrl.checks import check_streams


def twin_critics(mask: jax.Array, twin_q: jax.Array, twin_v: jax.Array) -> jax.Array:
    """Advantage of a turn by critics that were learnt off the policy.

    A[i, t] = min_j Q_j(o_t, u_t) - min_j V_j(o_t).

    Args:
      mask: bool[N, T], the agent acted.
      twin_q, twin_v: f32[N, T, 2], of component `agentrl.methods.archer`: two values of the turn's
        observation and reply, and two of its observation.

    Returns:
      f32[N, T], 0 where mask is False, gradient stopped.

    Raises:
      ValueError: arrays of other shapes or types.

    References:
      Zhou et al. (2024), ArCHer, https://arxiv.org/abs/2402.19446; code YifeiZhou02/ArCHer 7c771a7
      (read).
    """
    check_streams("twin_critics", mask)
    expected = (*jnp.shape(mask), 2)
    for name, values in (("twin_q", twin_q), ("twin_v", twin_v)):
        if jnp.shape(values) != expected:
            raise ValueError(f"twin_critics: {name} has shape {jnp.shape(values)}, not {expected}")
    advantage = jnp.min(twin_q, axis=-1) - jnp.min(twin_v, axis=-1)
    return as_advantage(jnp.asarray(advantage, jnp.float32), mask)


def twin_targets(
    reward: jax.Array, terminated: jax.Array, next_value: jax.Array, *, gamma: float = 0.95
) -> jax.Array:
    """Targets of the two critics of replies, r + gamma (1 - terminated) V'_j(o').

    Each critic has its own target; the smaller of the two is for the actor only.

    Args:
      reward: f32[...]. terminated: bool[...].
      next_value: f32[..., 2], of the slow copies.

    Returns:
      f32[..., 2], without gradient.
    """
    # What follows the end is not read: it may be no number.
    following = jnp.where(terminated[..., None], 0.0, gamma * next_value)
    return jax.lax.stop_gradient(reward[..., None] + following)
