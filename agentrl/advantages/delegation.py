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
from agentrl.checks import check_range, check_streams
from agentrl.declarations import assumes
from agentrl.streams import main_streams


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
    planner = jnp.any(mask, axis=1) & (parent < 0)
    returns, scale = episode_returns(reward, mask)
    against = moments(returns, group_segments(group, planner, role), scale=scale)
    own = relative(returns, against, normalize=normalize, epsilon=epsilon, singleton=singleton)
    own = jnp.where(planner, own, 0.0)
    return as_advantage(own[main_streams(parent)][:, None], mask)


def aligned(
    key: jax.Array, mask: jax.Array, group: jax.Array, parent: jax.Array, *, target: int
) -> jax.Array:
    """How often each trajectory of a sub-agent counts so that every group has `target` of them.

    Of a group with n > target sub-trajectories, a random choice of `target` counts once and the
    others not at all (dropped). Of one with fewer, each counts target // n times, and a random
    choice of the rest once more (repeated). Main agents count once, whoever did not act not at all.

    Args:
      key: consumed.
      mask: bool[N, T], the agent acted.
      group: i32[N], any ids, the query.
      parent: i32[N], the stream that called this one, -1 for main agents.
      target: D, at least 1.

    Returns:
      i32[N].

    Raises:
      ValueError: a target below 1.

    References:
      As `m_grpo`: "fix a number, drop at random above it, repeat at random below", from notes.
    """
    check_range("aligned target", target, 1)
    acted = jnp.any(mask, axis=1)
    sub = acted & (parent >= 0)
    count = mask.shape[0]
    segment = group_segments(group, sub)
    number = jax.ops.segment_sum(sub.astype(jnp.int32), segment, num_segments=count + 1)[segment]
    # The place of each in a random order of its group.
    drawn = jax.random.uniform(key, (count,))
    order = jnp.lexsort((drawn, segment, ~sub))
    first = jax.ops.segment_min(jnp.arange(count), segment[order], num_segments=count + 1)
    place = jnp.zeros(count, jnp.int32).at[order].set(jnp.arange(count, dtype=jnp.int32))
    place = place - first[segment].astype(jnp.int32)
    number = jnp.maximum(number, 1)
    copies = target // number + (place < target % number)
    return jnp.where(sub, copies, acted.astype(jnp.int32))


def as_often(advantage: jax.Array, mask: jax.Array, copies: jax.Array) -> jax.Array:
    """Advantages times how often a turn's trajectory counts: M-GRPO's repeated and dropped ones.

    Equal to rows that are repeated or left out under a sum over rows or a division by a constant
    (aggregation="constant"); a mean over tokens divides by what is there.

    Args:
      advantage: f32[N, T].
      mask: bool[N, T], the agent acted.
      copies: f32[N, T], of component `agentrl.methods.alignment.alignment`.

    Returns:
      f32[N, T], 0 where mask is False, gradient stopped.

    Raises:
      ValueError: arrays of other shapes or types.
    """
    check_streams("as_often", mask, numbers={"advantage": advantage, "copies": copies})
    return jax.lax.stop_gradient(jnp.where(mask, advantage * copies, 0.0))


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
    sub-agent's its own format, the main agent's outcome and a judge's grade (reward term
    `delegated_reward`). The paper aligns sub-agents' trajectories to batches of a fixed size by
    dropping and repeating them; rows with masks need no such alignment, and each trajectory counts
    once here, unless component `agentrl.methods.alignment` and reweighting `as_often` align them.

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
