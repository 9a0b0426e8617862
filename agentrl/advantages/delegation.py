"""Planners and the workers they call: MATPO and M-GRPO."""

import jax
import jax.numpy as jnp

from agentrl.advantages.group_relative import episode_returns, grpo
from agentrl.advantages.grouping import (
    Normalize,
    Singleton,
    as_advantage,
    group_segments,
    moments,
    relative,
)
from agentrl.checks import check_streams
from agentrl.declarations import assumes


@assumes("whole_episodes")
def matpo(
    reward: jax.Array,
    mask: jax.Array,
    group: jax.Array,
    parent: jax.Array,
    *,
    normalize: Normalize = "std",
    singleton: Singleton = "zero",
    role: jax.Array | None = None,
    epsilon: float = 1e-6,
) -> jax.Array:
    """GRPO among planners; a worker inherits the advantage of the planner that called it.

    A_i = (R_i - mean_g) / (std_g + epsilon) over the group's planners (parent -1),
    A_w = A_{parent of w}, on every turn that the worker itself acted in.

    A worker of a worker inherits along the chain. Workers' own rewards are not read, and a group's
    statistics do not depend on how many workers there were. The gradient does: the reference's
    means over sequences divide by the number of planners, `losses.aggregate`'s by that of all rows
    (its "constant" divides by what it is given).

    Args:
      reward: f32[N, T].
      mask: bool[N, T], the agent acted.
      group: i32[N], any ids.
      parent: i32[N], the stream that called this one, -1 for planners.
      normalize, singleton, epsilon: as for `grpo`.
      role: i32[N], any ids; planners of different roles are compared apart.

    Returns:
      f32[N, T], gradient stopped; 0 where mask is False, and for workers of a planner that never
      acted.

    Raises:
      ValueError: an unknown choice, a negative epsilon, or arrays of other shapes or types.

    References:
      Mo et al. (2025), MATPO, https://arxiv.org/abs/2510.04678. Read and executed: mzf666/MATPO
      3c41d62. Deviation: its code copies the planner's advantages position by position, already
      masked by where the planner wrote, so that a worker's tokens are not learnt from where the
      planner had tool output or had ended (a third of them in a random case).
    """
    ids = {"group": group, "parent": parent, "role": role}
    check_streams("matpo", mask, numbers={"reward": reward}, ids=ids)
    count = mask.shape[0]
    planner = jnp.any(mask, axis=1) & (parent < 0)
    returns, scale = episode_returns(reward, mask)
    against = moments(returns, group_segments(group, planner, role), scale=scale)
    own = relative(returns, against, normalize=normalize, epsilon=epsilon, singleton=singleton)
    own = jnp.where(planner, own, 0.0)
    # Each step doubles the length of the chains that are resolved.
    root = jnp.where(parent < 0, jnp.arange(count), parent)
    root = jax.lax.fori_loop(0, count.bit_length(), lambda _, to: to[to], root)
    return as_advantage(own[root][:, None], mask)


@assumes("whole_episodes")
def m_grpo(
    reward: jax.Array,
    mask: jax.Array,
    group: jax.Array,
    role: jax.Array,
    *,
    normalize: Normalize = "std",
    singleton: Singleton = "zero",
    penalty: jax.Array | None = None,
    epsilon: float = 1e-6,
) -> jax.Array:
    """GRPO of each agent among its own trajectories of the same query.

    A_i = (R_i - mean_{g, k}) / (std_{g, k} + epsilon) over the streams of group g and role k: the
    main agent is compared over the K rollouts of a query, a sub-agent over all its trajectories in
    them, whichever rollout called them. One value per stream; `dr_mas` counts turns instead.

    The caller decides the rewards: the main agent's are a format and a correctness term, a
    sub-agent's its own format, the main agent's outcome and a judge's grade. The paper aligns
    sub-agents' trajectories to batches of a fixed size by dropping and repeating them; rows with
    masks need no such alignment, and each trajectory counts once here.

    Args:
      reward: f32[N, T].
      mask: bool[N, T], the agent acted.
      group: i32[N], any ids.
      role: i32[N], any ids, the kind of agent.
      normalize, singleton, penalty, epsilon: as for `grpo`.

    Returns:
      f32[N, T], 0 where mask is False, gradient stopped. This is `grpo` with `role`.

    Raises:
      ValueError: an unknown choice, a negative epsilon, or arrays of other shapes or types.

    References:
      Hong et al. (2025), M-GRPO, https://arxiv.org/abs/2511.13288, reconstructed from its abstract
      and a review. AQ-MedAI/MrlX 0d04788 does otherwise: a "group" of the sub-agent is the next
      eight trajectories from a queue, of whichever query.
    """
    return grpo(
        reward,
        mask,
        group,
        normalize=normalize,
        singleton=singleton,
        penalty=penalty,
        role=role,
        epsilon=epsilon,
    )
