"""Group baselines over agent calls: each agent's own (Dr. MAS), or one for a team's episode.

Why each agent's own: with one mean and deviation for all agents, the second moment of agent k's
gradient is larger by (std_k^2 + (mean_k - mean)^2) / std^2. Agents differ in mean where some are
called only in some episodes, or where each has a reward of its own. Over all calls of a group the
factor's mean is 1: one agent's gradient grows by as much as another's shrinks. Without the division
it is 1 + (mean_k - mean)^2 / std_k^2, and never below 1.
"""

from typing import Literal, get_args

import jax
import jax.numpy as jnp

from agentrl.advantages.group_relative import episode_returns
from agentrl.advantages.grouping import (
    Moments,
    Normalize,
    Singleton,
    as_advantage,
    moments,
    per_turn,
    relative,
    turn_segments,
)
from agentrl.advantages.reinforce import whiten
from agentrl.checks import check_choice, check_streams
from agentrl.declarations import assumes

CallStatistics = Literal["agent_turns", "all_turns", "episode_means", "first_turns"]


@assumes("whole_episodes", "tokens_as_cost")
def dr_mas(
    reward: jax.Array,
    mask: jax.Array,
    group: jax.Array,
    role: jax.Array,
    *,
    statistics: CallStatistics = "agent_turns",
    normalize: Normalize = "std",
    leave_one_out: bool = False,
    whitened: bool = False,
    singleton: Singleton = "zero",
    penalty: jax.Array | None = None,
    episode: jax.Array | None = None,
    cost: jax.Array | None = None,
    epsilon: float = 1e-6,
) -> jax.Array:
    """Advantage of an agent's call against the calls of the same agent in the same group.

    A call is a turn of one agent. Its score is its stream's return (in a team all streams carry the
    team's) minus its own penalty, S[i, t] = R_i - penalty[i, t], and

      A[i, t] = (S[i, t] - mean_{g, k}) / (std_{g, k} + epsilon),

    over all calls of group g and agent (role) k: an agent that was called three times in an episode
    counts three times.

    Args:
      reward: f32[N, T].
      mask: bool[N, T], the agent acted.
      group: i32[N], any ids; all agents of an episode are in one group.
      role: i32[N], any ids, the agent.
      statistics: what mean and deviation are of. "agent_turns": the above. The others are one
        baseline for all agents. "episode_means": all calls of an episode get the mean of their
        scores, which counts once (what the same code base calls GRPO). "first_turns": over the
        score of each episode's first call, earliest turn, then lowest stream (its RLOO, REINFORCE++
        and GiGPO); each call keeps its own score. These two need `episode`. "all_turns": over all
        calls of all agents (that of the factor above; not in its code).
      normalize: "std", or "mean" for no division.
      leave_one_out: times n / (n - 1), n calls or episodes; with normalize="mean" this is RLOO.
      whitened: whiten the result over the batch, by tokens where `cost` is given, else by turns;
        with normalize="mean" this is REINFORCE++ with a baseline.
      singleton: a group of one call (episode) gives "zero", or its "raw" score as the reference.
      penalty: f32[N, T], subtracted from the call's own score (the reference, for malformed output:
        0.1 in mathematics, 0.01 in search).
      episode: i32[N], any ids; the streams of one episode.
      cost: f32[N, T], tokens of each turn.
      epsilon: added to the standard deviation (ddof 1), outside the root.

    Returns:
      f32[N, T], 0 where mask is False, gradient stopped. Calls of equal scores give exactly 0.

    Raises:
      ValueError: an unknown choice, statistics of episodes without `episode`, a negative epsilon,
        or arrays of other shapes or types.

    References:
      Feng et al. (2026), Dr. MAS, https://arxiv.org/abs/2602.08847: the abstract; the variance's
      formula is recalled. Read and executed: langfengQ/DrMAS 19c632b, with group_by_agent_id True
      ("agent_turns") and False. It pads its batch with duplicates of random rows, which then count.
    """
    _check_statistics(statistics, episode)
    numbers = {"reward": reward, "penalty": penalty, "cost": cost}
    ids = {"group": group, "role": role, "episode": episode}
    check_streams("dr_mas", mask, numbers=numbers, ids=ids)
    score, compared, against = _compared_calls(
        reward, mask, group, role, penalty, episode, statistics
    )
    advantage = relative(
        score,
        against,
        compared=compared,
        normalize=normalize,
        epsilon=epsilon,
        leave_one_out=leave_one_out,
        singleton=singleton,
    ).reshape(mask.shape)
    return whiten(advantage, mask, frequency=cost) if whitened else as_advantage(advantage, mask)


def _check_statistics(statistics: CallStatistics, episode: jax.Array | None) -> None:
    check_choice("statistics", statistics, get_args(CallStatistics))
    if statistics in ("episode_means", "first_turns") and episode is None:
        raise ValueError(
            f"dr_mas statistics={statistics!r} compares episodes; give episode=, the episode of "
            "each stream, or use statistics='agent_turns'"
        )


def _compared_calls(
    reward, mask, group, role, penalty, episode, statistics
) -> tuple[jax.Array, jax.Array, Moments]:
    """(score, the values that are compared, their group's moments) of each call, [N * T]."""
    shape, acted = mask.shape, jnp.asarray(mask).reshape(-1)
    score, scale = (per_turn(x, shape) for x in episode_returns(reward, mask))
    if penalty is not None:
        penalty = jnp.where(mask, penalty, 0.0).reshape(-1)
        score, scale = score - penalty, scale + jnp.abs(penalty)
    score = jnp.where(acted, score, 0.0)
    scale = jnp.where(acted, scale, 0.0)
    compared, frequency = score, None
    if statistics == "agent_turns":
        segment = turn_segments(mask, group, role)
    else:
        segment = turn_segments(mask, group)
    if statistics in ("episode_means", "first_turns"):
        played = turn_segments(mask, group, episode)
        frequency = _first_calls(acted, played, shape)
        if statistics == "episode_means":
            compared = score = moments(score, played, scale=scale).mean
        else:
            compared = _of_first_call(score, frequency, played)
        scale = moments(scale, played).mean
    against = moments(compared, segment, frequency=frequency, scale=scale)
    return score, compared, against


def _first_calls(acted: jax.Array, played: jax.Array, shape: tuple[int, int]) -> jax.Array:
    """Whether a call is the first of its episode, bool[M]: earliest turn, then lowest stream."""
    count = acted.shape[0]
    place = jnp.arange(count).reshape(shape[::-1]).T.reshape(-1)
    first = jax.ops.segment_min(place, played, num_segments=count)
    return acted & (place == first[jnp.minimum(played, count - 1)])


def _of_first_call(score: jax.Array, first: jax.Array, played: jax.Array) -> jax.Array:
    """The score of the first call of each call's episode, f32[M]."""
    count = score.shape[0]
    own = jax.ops.segment_sum(jnp.where(first, score, 0.0), played, num_segments=count)
    return own[jnp.minimum(played, count - 1)]
