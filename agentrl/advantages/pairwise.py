"""Advantages by the order of returns within a group (DeepMiner)."""

import jax
import jax.numpy as jnp

from agentrl.advantages.group_relative import episode_returns
from agentrl.advantages.grouping import as_advantage, group_segments, runs_of_equals
from agentrl.checks import check_streams
from agentrl.declarations import assumes


@assumes("whole_episodes")
def pairwise_sign(
    reward: jax.Array,
    mask: jax.Array,
    group: jax.Array,
    *,
    role: jax.Array | None = None,
) -> jax.Array:
    """Share of the group that the episode beats, minus the share that beats it (DeepMiner).

    A_i = mean_j (1[R_i > R_j] - 1[R_i < R_j]), j over all streams of the group, i included. Only
    the order of returns matters. For returns 0 and 1 it is R_i - mean_g, i.e. Dr. GRPO; for graded
    returns it is not.

    Args:
      reward, mask, group, role: as for `grpo`.

    Returns:
      f32[N, T] in (-1, 1), 0 where mask is False, gradient stopped. Returns that differ by float32
      rounding only are equal.

    Raises:
      ValueError: arrays of other shapes or types.

    References:
      DeepMiner (2025). From notes on the paper that quote its equations; neither the paper's text
      nor code was read.
    """
    check_streams(
        "pairwise_sign", mask, numbers={"reward": reward}, ids={"group": group, "role": role}
    )
    returns, _ = episode_returns(reward, mask)
    count = mask.shape[0]
    segment = group_segments(group, jnp.any(mask, axis=1), role)
    order, begins = runs_of_equals(returns, segment)
    # Sorted by group and return: where the group and the run of equal returns begin and end.
    index, ordered = jnp.arange(count), segment[order]
    size = jax.ops.segment_sum(jnp.ones(count), segment, num_segments=count + 1)[ordered]
    first = jax.ops.segment_min(index, ordered, num_segments=count + 1)[ordered]
    run = jnp.cumsum(begins)
    below = jax.ops.segment_min(index, run, num_segments=count + 1)[run] - first
    above = first + size - 1 - jax.ops.segment_max(index, run, num_segments=count + 1)[run]
    share = (below - above) / jnp.maximum(size, 1)
    return as_advantage(jnp.zeros(count).at[order].set(share)[:, None], mask)
