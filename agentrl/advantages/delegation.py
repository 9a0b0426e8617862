"""Planners and the workers they call: MATPO, M-GRPO, and its alignment to fixed batches."""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from agentrl.advantages.group_relative import grpo
from agentrl.advantages.grouping import group_owner, joint_owner, moments, relative


def matpo(
    reward: jax.Array,
    mask: jax.Array,
    group: jax.Array,
    parent: jax.Array,
    *,
    normalize: str = "std",
    singleton: str = "zero",
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
      reward: f32[N, T]; mask: bool[N, T]; group: i32[N], any ids.
      parent: i32[N], the stream that called this one, -1 for planners.
      normalize, singleton, epsilon: as for `grpo`.

    Returns:
      f32[N, T], 0 where mask is False, and for workers of a planner that never acted.

    References:
      Mo et al. (2025), MATPO, https://arxiv.org/abs/2510.04678. Read and executed: mzf666/MATPO
      3c41d62. Deviation: its code copies the planner's advantages position by position, already
      masked by where the planner wrote, so that a worker's tokens are not learnt from where the
      planner had tool output or had ended (a third of them in a random case).
    """
    chex.assert_rank([reward, mask, group, parent], [2, 2, 1, 1])
    chex.assert_equal_shape([reward, mask])
    count = mask.shape[0]
    planner = jnp.any(mask, axis=1) & (parent < 0)
    returns = jnp.sum(jnp.where(mask, reward, 0), axis=1, dtype=jnp.float32)
    against = moments(returns, group_owner(group, planner))
    own = relative(returns, against, normalize=normalize, epsilon=epsilon, singleton=singleton)
    own = jnp.where(planner, own, 0.0)
    # Each step doubles the length of the chains that are resolved.
    root = jnp.where(parent < 0, jnp.arange(count), parent)
    root = jax.lax.fori_loop(0, count.bit_length(), lambda _, to: to[to], root)
    return jnp.where(mask, own[root][:, None], 0.0)


def m_grpo(
    reward: jax.Array,
    mask: jax.Array,
    group: jax.Array,
    role: jax.Array,
    *,
    normalize: str = "std",
    singleton: str = "zero",
    penalty: jax.Array | None = None,
    epsilon: float = 1e-6,
) -> jax.Array:
    """GRPO of each agent among its own trajectories of the same query.

    A_i = (R_i - mean_{g, k}) / (std_{g, k} + epsilon) over the streams of group g and role k: the
    main agent is compared over the K rollouts of a query, a sub-agent over all its trajectories in
    them, whichever rollout called them. One value a stream; `dr_mas` counts turns instead.

    What a stream earns is the caller's: the main agent a format and a correctness term, a sub-agent
    its own format, the main agent's outcome and a judge's grade.

    Args:
      reward: f32[N, T]; mask: bool[N, T]; group: i32[N]; role: i32[N], the kind of agent.
      normalize, singleton, penalty, epsilon: as for `grpo`.

    Returns:
      f32[N, T], 0 where mask is False. With one role this is `grpo`.

    References:
      Hong et al. (2025), M-GRPO, https://arxiv.org/abs/2511.13288, reconstructed from its abstract
      and a review. AQ-MedAI/MrlX 0d04788 does otherwise: a "group" of the sub-agent is the next
      eight trajectories from a queue, of whichever query.
    """
    owner = joint_owner(jnp.any(mask, axis=1), group, role)
    return grpo(
        reward,
        mask,
        owner,
        normalize=normalize,
        singleton=singleton,
        penalty=penalty,
        epsilon=epsilon,
    )


class Alignment(NamedTuple):
    """Streams drawn for batches of a fixed size.

    index: i32[Q, D], stream in each place of each query.
    filled: bool[Q, D], False for a query without any stream (index is then 0).
    copies: i32[N], how often each stream was drawn; as a weight it does what gathering does.
    """

    index: jax.Array
    filled: jax.Array
    copies: jax.Array


def align(
    key: jax.Array, group: jax.Array, include: jax.Array, *, queries: int, target: int
) -> Alignment:
    """A fixed number of sub-trajectories a query: dropped at random if more, repeated if fewer.

    Of n candidates of a query, target <= n are drawn without replacement; target > n take each of
    them floor(target / n) times, and the rest of the places go to different ones at random.

    Args:
      key: PRNG key, consumed.
      group: i32[N], query of each stream, in [0, queries).
      include: bool[N], the streams to draw from (a sub-agent's that acted).
      queries, target: Q and D, static.

    Returns:
      `Alignment`, whose shapes depend on Q, D and N only.

    References:
      Hong et al. (2025), M-GRPO, https://arxiv.org/abs/2511.13288: its trajectory alignment,
      from the abstract. How repeats are drawn was not read, and the released code has no alignment;
      ours repeat as evenly as possible.
    """
    if queries < 1 or target < 1:
        raise ValueError(f"align queries={queries}, target={target}: expected at least 1 of each")
    chex.assert_rank([group, include], 1)
    chex.assert_equal_shape([group, include])
    count = group.shape[0]
    query = jnp.where(include, group, queries)
    # By query, in random order within each: place j takes the candidate j modulo their number.
    order = jnp.lexsort((jax.random.uniform(key, (count,)), query))
    candidates = jnp.zeros(queries, jnp.int32).at[query].add(1, mode="drop")
    start = jnp.cumsum(candidates) - candidates
    place = jnp.arange(target)[None] % jnp.maximum(candidates, 1)[:, None]
    filled = jnp.broadcast_to(candidates[:, None] > 0, (queries, target))
    index = jnp.where(filled, order[jnp.minimum(start[:, None] + place, count - 1)], 0)
    copies = jnp.zeros(count, jnp.int32).at[index].add(filled.astype(jnp.int32))
    return Alignment(index.astype(jnp.int32), filled, copies)
