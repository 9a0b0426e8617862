"""Group baselines over agent calls: each agent's own (Dr. MAS), or one for a team's episode."""

import chex
import jax
import jax.numpy as jnp

from agentrl.advantages.grouping import choice, group_owner, joint_owner, moments, relative
from agentrl.advantages.reinforce import whiten


def dr_mas(
    reward: jax.Array,
    mask: jax.Array,
    group: jax.Array,
    role: jax.Array,
    *,
    rows: str = "agent",
    normalize: str = "std",
    leave_one_out: bool = False,
    whitened: bool = False,
    singleton: str = "zero",
    penalty: jax.Array | None = None,
    episode: jax.Array | None = None,
    cost: jax.Array | None = None,
    epsilon: float = 1e-6,
) -> jax.Array:
    """Advantage of an agent's call against the calls of the same agent in the same group.

    A row is a call: a turn of one agent. Its score is its stream's return (in a team all carry the
    team's) less its own penalty, S[i, t] = R_i - penalty[i, t], and

      A[i, t] = (S[i, t] - mean_{g, k}) / (std_{g, k} + epsilon),

    over all rows of group g and agent (role) k: an agent that was called three times in an episode
    counts three times. With one mean for all agents, the second moment of agent k's gradient is
    larger by (std_k^2 + (mean_k - mean)^2) / std^2; agents differ in mean where some are called
    only in some episodes, or where each has a reward of its own. Over all rows of a group the
    factor's mean is 1: what one agent's gradient gains another's loses. Without the division it is
    1 + (mean_k - mean)^2 / std_k^2, and never below 1.

    Args:
      reward: f32[N, T]; mask: bool[N, T]; group, role: i32[N], any ids.
      rows: what the statistics are of. "agent": the above. "mean": one baseline for all agents,
        where all rows of an episode get the mean of their scores and it counts once (what the same
        code base calls GRPO). "first": one baseline for all agents, over the scores of each
        episode's first row, earliest turn, then lowest stream (its RLOO, REINFORCE++ and GiGPO);
        each row keeps its own score. These two need `episode`. "all": one baseline for all agents,
        over all their rows (that of the factor above; not in its code).
      normalize: "std", or "mean" for no division.
      leave_one_out: times n / (n - 1), n rows or episodes; with normalize="mean" this is RLOO.
      whitened: whiten the result over the batch, by tokens where `cost` is given, else by turns;
        with normalize="mean" this is REINFORCE++ with a baseline.
      singleton: a group of one row (episode) gives "zero", or its "raw" score as the reference.
      penalty: f32[N, T], subtracted from the row's own score (the reference, for malformed output:
        0.1 in mathematics, 0.01 in search).
      episode: i32[N], any ids; streams of one episode are in one group, the lowest that any of
        them names: rollouts number groups by seat, and seats are compared here. None: as named.
      cost: f32[N, T], tokens of each turn.
      epsilon: added to the standard deviation (ddof 1), outside the root.

    Returns:
      f32[N, T], 0 where mask is False. Rows of equal scores give exactly 0.

    References:
      Feng et al. (2026), Dr. MAS, https://arxiv.org/abs/2602.08847: the abstract; the variance's
      formula is recalled. Read and executed: langfengQ/DrMAS 19c632b, with group_by_agent_id True
      ("agent") and False. It pads its batch with duplicates of random rows before this, which then
      count; nothing is padded so here.
    """
    choice("rows", rows, ("agent", "mean", "first", "all"))
    if rows in ("mean", "first") and episode is None:
        raise ValueError(
            f"dr_mas rows={rows!r} compares episodes; give episode=, the episode of each stream, "
            "or use rows='agent'"
        )
    chex.assert_rank([reward, mask], 2)
    chex.assert_equal_shape([reward, mask])
    shape, count = mask.shape, mask.size
    if episode is not None:
        streams = mask.shape[0]
        together = group_owner(jnp.asarray(episode), jnp.any(mask, axis=1))
        lowest = jax.ops.segment_min(jnp.asarray(group), together, num_segments=streams)
        group = lowest[jnp.minimum(together, streams - 1)]

    def each_row(stream):
        return jnp.broadcast_to(jnp.asarray(stream)[:, None], shape).reshape(-1)

    acted = jnp.asarray(mask).reshape(-1)
    score = each_row(jnp.sum(jnp.where(mask, reward, 0), axis=1, dtype=jnp.float32))
    if penalty is not None:
        chex.assert_equal_shape([reward, penalty])
        score = score - jnp.where(mask, penalty, 0).reshape(-1)
    score = jnp.where(acted, score, 0.0)
    of, weight = score, None
    if rows == "agent":
        owner = joint_owner(acted, each_row(group), each_row(role))
    elif rows == "all":
        owner = group_owner(each_row(group), acted)
    else:
        owner = group_owner(each_row(group), acted)
        played = joint_owner(acted, each_row(group), each_row(episode))
        home = jnp.minimum(played, count - 1)
        # Rows in the order in which they were played, and the first of each episode.
        place = jnp.arange(count).reshape(shape[::-1]).T.reshape(-1)
        first = jax.ops.segment_min(place, played, num_segments=count)[home]
        weight = acted & (place == first)
        if rows == "mean":
            of = score = moments(score, played).mean
        else:
            of = jax.ops.segment_sum(jnp.where(weight, score, 0.0), played, count)[home]
    advantage = relative(
        score,
        moments(of, owner, weight=weight),
        of=of,
        normalize=normalize,
        epsilon=epsilon,
        leave_one_out=leave_one_out,
        singleton=singleton,
    ).reshape(shape)
    if whitened:
        return whiten(advantage, mask, weight=cost)
    return jnp.where(mask, advantage, 0.0)
