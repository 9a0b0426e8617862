"""Which groups carry a signal."""

import jax
import jax.numpy as jnp

from agentrl.advantages.grouping import group_owner, moments


def dynamic_sampling(reward: jax.Array, mask: jax.Array, group: jax.Array) -> jax.Array:
    """Streams to keep, bool[N]: those of groups whose raw returns are not all equal.

    reward f32[N, T] before any penalty, mask bool[N, T], group i32[N]. Equality is exact, in
    float32, as in the reference. A group of one stream is never kept.

    Deviation: the reference repeats rollouts until enough groups are kept; with fixed shapes the
    streams that are not kept are masked out of the update instead.

    References:
      Yu et al. (2025), DAPO, https://arxiv.org/abs/2503.14476. Executed: verl-agent 796ed31.
    """
    returns = jnp.sum(jnp.where(mask, reward, 0), axis=1)
    present = jnp.any(mask, axis=1)
    return present & (moments(returns, group_owner(group, present)).extent > 0)


def top_variance(
    reward: jax.Array, mask: jax.Array, group: jax.Array, *, fraction: float = 0.25
) -> jax.Array:
    """Streams to keep, bool[N]: the share of groups whose returns spread most (StarPO-S).

    Of G groups the floor(fraction * G), and at least one, with the largest sample standard
    deviation of their raw returns. At a tie for the last place the groups that come first are kept;
    groups without any spread are never kept.

    reward f32[N, T] before any penalty, mask bool[N, T], group i32[N], fraction in (0, 1].

    References:
      Wang et al. (2025), RAGEN, https://arxiv.org/abs/2504.20073 (uncertainty-based filtering, 25 %
      kept). Read: RAGEN 5eb79b8, `ctx_manager`/`agent_trainer` (top groups by reward std).
      Deviation: they would keep groups without spread to fill the share; such a group has no
      gradient without a critic, and only noise with one.
    """
    if not 0 < fraction <= 1:
        raise ValueError(f"top_variance fraction={fraction}: expected more than 0 and at most 1")
    returns = jnp.sum(jnp.where(mask, reward, 0), axis=1)
    present = jnp.any(mask, axis=1)
    owner = group_owner(group, present)
    spread = moments(returns, owner)
    deviation = jnp.where(spread.extent > 0, spread.std, 0.0)
    count = reward.shape[0]
    # One representative a group: the stream that owns it.
    index = jnp.arange(count)
    leader = present & (owner == index)
    groups = jnp.sum(leader)
    rank = jnp.argsort(jnp.argsort(jnp.where(leader, -deviation, jnp.inf), stable=True))
    places = jnp.maximum(jnp.floor(fraction * groups), 1)
    kept = leader & (rank < places) & (deviation > 0)
    return present & kept[jnp.minimum(owner, count - 1)]
