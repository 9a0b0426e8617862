"""Filters: the streams that an update learns from, bool[N].

A filter may act before the estimator (the streams that it rejects take no part in group statistics)
or after it (they do, and are not learnt from); a config says which. A filter's docstring says what
its reference does.
"""

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.advantages.group_relative import episode_returns, rloo
from agentrl.advantages.grouping import Moments, group_segments, moments
from agentrl.checks import check_range, check_runs, check_streams
from agentrl.declarations import assumes


def _group_moments(reward, mask, group, role) -> tuple[Moments, jax.Array]:
    """Moments of the raw returns of each stream's group, and its segment, [N] each."""
    returns, scale = episode_returns(reward, mask)
    segment = group_segments(group, jnp.any(mask, axis=1), role)
    return moments(returns, segment, scale=scale), segment


@assumes("whole_episodes")
def dynamic_sampling(
    reward: jax.Array, mask: jax.Array, group: jax.Array, *, role: jax.Array | None = None
) -> jax.Array:
    """Streams to keep, bool[N]: those of groups whose raw returns are not all equal.

    Args:
      reward: f32[N, T], before any penalty.
      mask: bool[N, T], the agent acted.
      group: i32[N], any ids.
      role: i32[N], any ids; streams of different roles are compared apart.

    Returns:
      bool[N]. Returns are equal if they differ by float32 rounding only, as in `grpo`, which gives
      such a group 0 (the reference compares float32 exactly). A group of one is never kept.

    Raises:
      ValueError: arrays of other shapes or types.

    Deviation: the reference repeats rollouts until enough groups are kept; with fixed shapes the
    streams that are not kept are masked out of the update instead.

    References:
      Yu et al. (2025), DAPO, https://arxiv.org/abs/2503.14476. Executed: verl-agent 796ed31.
    """
    ids = {"group": group, "role": role}
    check_streams("dynamic_sampling", mask, numbers={"reward": reward}, ids=ids)
    statistics, _ = _group_moments(reward, mask, group, role)
    return jnp.any(mask, axis=1) & ~statistics.constant


def helps_all(
    mask: jax.Array, runs: jax.Array, *, partners: tuple[int, ...] = (), strict: bool = False
) -> jax.Array:
    """Streams to keep, bool[N]: those of plans that harm no executor (EAGLET's consensus).

    A plan is kept if no executor's return with it is below that without it; with `strict` if in
    addition one executor's is above it, so that plans that change nothing are left out.

    Args:
      mask: bool[N, T], the agent acted.
      runs: f32[N, 3, E, 1 + K], of rollout `counterfactual`; its first replacement has no plan.
      partners: numbers of the executors that are asked; (): all.
      strict: see above; not in the notes on the paper.

    Returns:
      bool[N].

    Raises:
      ValueError: unknown partners, or arrays of other shapes or types.

    References:
      EAGLET (2025), https://arxiv.org/abs/2510.05608, from notes: homologous consensus filtering of
      the plans for the cold start by SFT.
    """
    check_streams("helps_all", mask)
    check_runs("helps_all", mask, runs, partners)
    gain = runs[:, 0, :, 0] - runs[:, 0, :, 1]
    gain = gain[:, jnp.asarray(partners)] if partners else gain
    kept = jnp.all(gain >= 0, axis=1)
    return jnp.any(mask, axis=1) & (kept & jnp.any(gain > 0, axis=1) if strict else kept)


def only_roles(mask: jax.Array, role: jax.Array, *, roles: tuple[int, ...]) -> jax.Array:
    """Streams to keep, bool[N]: those of some roles, so that the others are not learnt from.

    Parameters of their own of the other roles (networks by role, or adapters per role) then have a
    gradient of exactly 0; parameters that roles share are trained by the roles that are kept.

    Args:
      mask: bool[N, T], the agent acted.
      role: i32[N].
      roles: numbers of the roles that are learnt from.

    Returns:
      bool[N].

    Raises:
      ValueError: no roles, or arrays of other shapes or types.

    Source: alternate training of planners and workers, as in HierSearch,
    https://arxiv.org/abs/2508.08088 (code read).
    """
    check_streams("only_roles", mask, ids={"role": role})
    if not roles or any(not isinstance(one, int) or one < 0 for one in roles):
        raise ValueError(f"only_roles roles={roles!r}: expected one or more roles, 0 and up")
    chosen = jnp.any(role[:, None] == jnp.asarray(roles), axis=1)
    return jnp.any(mask, axis=1) & chosen


@assumes("whole_episodes")
def relevant(
    reward: jax.Array,
    mask: jax.Array,
    group: jax.Array,
    *,
    least: float = 0.01,
    role: jax.Array | None = None,
) -> jax.Array:
    """Streams to keep, bool[N]: those whose leave-one-out advantage is at least `least`.

    LOOP is `rloo` with this filter and the clipped surrogate of each token, without a critic.

    Args:
      reward: f32[N, T], before any penalty.
      mask: bool[N, T], the agent acted.
      group: i32[N], any ids.
      least: absolute value, at least 0.
      role: i32[N], any ids; streams of different roles are compared apart.

    Returns:
      bool[N].

    Raises:
      ValueError: a negative `least`, or arrays of other shapes or types.

    References:
      Chen et al. (2025), Reinforcement learning for long-horizon interactive LLM agents,
      https://arxiv.org/abs/2502.01600; code apple/ml-loop 6ade7b9 (read).
    """
    check_range("relevant least", least, 0.0)
    advantage = rloo(reward, mask, group, role=role)
    return jnp.any(mask, axis=1) & (jnp.max(jnp.abs(advantage), axis=1) >= least)


@assumes("whole_episodes")
def top_variance(
    reward: jax.Array,
    mask: jax.Array,
    group: jax.Array,
    *,
    fraction: float = 0.25,
    role: jax.Array | None = None,
) -> jax.Array:
    """Streams to keep, bool[N]: the groups with the largest deviation of returns (StarPO-S).

    Of G groups the floor(fraction * G), and at least one, with the largest sample standard
    deviation of their raw returns. At a tie for the last place the groups that come first are kept;
    groups without any deviation are never kept.

    Args:
      reward: f32[N, T], before any penalty.
      mask: bool[N, T], the agent acted.
      group: i32[N], any ids.
      fraction: in (0, 1], a Python number. The floor is that of Python's floats, as in RAGEN.
      role: i32[N], any ids; streams of different roles are different groups.

    Returns:
      bool[N].

    Raises:
      ValueError: fraction outside (0, 1], or arrays of other shapes or types.

    References:
      Wang et al. (2025), RAGEN, https://arxiv.org/abs/2504.20073 (uncertainty-based filtering, 25 %
      kept). Read: RAGEN 5eb79b8, `ctx_manager`/`agent_trainer` (top groups by reward std).
      Deviation: they would keep groups without deviation to fill the share; such a group has no
      gradient without a critic, and only noise with one.
    """
    check_range("top_variance fraction", fraction, 0.0, 1.0, above=True)
    ids = {"group": group, "role": role}
    check_streams("top_variance", mask, numbers={"reward": reward}, ids=ids)
    present, count = jnp.any(mask, axis=1), mask.shape[0]
    statistics, segment = _group_moments(reward, mask, group, role)
    deviation = jnp.where(statistics.constant, 0.0, statistics.std)
    # One representative per group: the stream that names the segment.
    leader = present & (segment == jnp.arange(count))
    rank = jnp.argsort(jnp.argsort(jnp.where(leader, -deviation, jnp.inf), stable=True))
    # By number of groups, as a table: float32 would round 0.53 * 100 below 53.
    places = np.maximum(np.floor(fraction * np.arange(count + 1)), 1).astype(np.int32)
    kept = leader & (rank < jnp.asarray(places)[jnp.sum(leader)]) & (deviation > 0)
    return present & kept[jnp.minimum(segment, count - 1)]


@assumes("whole_episodes")
def not_truncated(mask: jax.Array, truncated: jax.Array) -> jax.Array:
    """Streams to keep, bool[N]: those that no limit cut (over-turn masking).

    Meant to act after the estimator: in Mini-o3's release cut streams count in their group's
    statistics, and are not learnt from, so that a limit on turns does not teach early guessing.

    Args:
      mask: bool[N, T], the agent acted.
      truncated: bool[N, T], a limit cut the episode at this turn.

    Returns:
      bool[N].

    Raises:
      ValueError: arrays of other shapes or types.

    References:
      Lai et al. (2025), Mini-o3, https://arxiv.org/abs/2509.07969. Read: Mini-o3 8654dbf.
    """
    check_streams("not_truncated", mask, flags={"truncated": truncated})
    return jnp.any(mask, axis=1) & ~jnp.any(truncated & mask, axis=1)


@assumes("whole_episodes")
def over_turn_masking(
    reward: jax.Array,
    mask: jax.Array,
    group: jax.Array,
    truncated: jax.Array,
    *,
    role: jax.Array | None = None,
) -> jax.Array:
    """Streams to keep, bool[N]: not cut by a limit, in groups whose uncut returns are not equal.

    `not_truncated` with Mini-o3's rule for dynamic sampling: whether a group carries a signal is
    judged by the streams that will be learnt from. Returns 1, 1, 0*, 0* (* cut by a limit): the
    group differs, its uncut streams do not, and nothing of it is kept. Meant to act after the
    estimator.

    Args:
      reward: f32[N, T], before any penalty; mask, truncated: bool[N, T]; group: i32[N], any ids.
      role: i32[N], any ids; streams of different roles are compared apart.

    Returns:
      bool[N].

    Raises:
      ValueError: arrays of other shapes or types.

    References:
      Lai et al. (2025), Mini-o3, https://arxiv.org/abs/2509.07969. Read: Mini-o3 8654dbf, where
      returns differ if their deviation is at least 1e-4; here, if it is more than rounding.
    """
    numbers, ids = {"reward": reward}, {"group": group, "role": role}
    check_streams("over_turn_masking", mask, numbers=numbers, ids=ids)
    whole = not_truncated(mask, truncated)
    statistics, _ = _group_moments(reward, mask & whole[:, None], group, role)
    return whole & ~statistics.constant


@assumes("whole_episodes")
def resample_on_correct(
    reward: jax.Array,
    mask: jax.Array,
    group: jax.Array,
    valid: jax.Array,
    *,
    keep: int,
    min_wrong: int = 2,
    min_right: int = 2,
    threshold: float = 0.0,
    well_formed: jax.Array | None = None,
    tool_call: jax.Array | None = None,
    role: jax.Array | None = None,
) -> jax.Array:
    """Streams to keep, bool[N]: of each oversampled group the cleanest right and some wrong ones.

    GRPO-RoC collects more streams per group than it learns from. A stream is right if its return is
    above the threshold. Of a group of n streams, w of them wrong,

      z = round(keep * w / n) wrong ones and keep - z right ones are kept;
      if z <= min(min_wrong, w), z is that minimum, and the right ones are the rest;
      if then the right ones are <= min(min_right, n - w), they are that minimum, and z the rest.

    The first z wrong ones in the order of the streams are kept, and the right ones with the lowest
    penalty p = p_error + p_format:

      p_error: share of the stream's tool calls that were not valid; 0.5 without a tool call;
      p_format: share of its turns that broke the reply grammar.

    Groups of equal returns are dropped. Meant to act before the estimator: statistics are of the
    streams that are kept.

    Args:
      reward: f32[N, T], before any penalty.
      mask: bool[N, T], the agent acted.
      group: i32[N], any ids.
      valid: bool[N, T], the turn's call succeeded.
      keep: streams to keep per group, at least 1 (half of what is collected: 16 of 32).
      min_wrong, min_right: see above, at least 0.
      threshold: a stream is right if its return is larger.
      well_formed: bool[N, T], the reply kept the grammar; None: p_format is 0.
      tool_call: bool[N, T], the turn called a tool; None: every turn did.
      role: i32[N], any ids; streams of different roles are different groups.

    Returns:
      bool[N]. At most `keep` streams of each group.

    Raises:
      ValueError: a number outside its range, or arrays of other shapes or types.

    Deviations: p_format of the reference counts answer tags in the text (1 without an answer, else
    min(1, (answers - 1) / turns)). In the reference z and the number of right ones are rounded
    apart, so that with an odd `keep` they may miss it by one.

    References:
      rStar2-Agent (2025), GRPO-RoC. Read in code: microsoft/rStar ecbfb94, which takes the right
      streams with the lowest penalty. The paper draws them with a probability that falls with the
      penalty (reconstructed, not read).
    """
    check_range("resample_on_correct keep", keep, 1)
    check_range("resample_on_correct min_wrong", min_wrong, 0)
    check_range("resample_on_correct min_right", min_right, 0)
    flags = {"valid": valid, "well_formed": well_formed, "tool_call": tool_call}
    ids = {"group": group, "role": role}
    check_streams("resample_on_correct", mask, numbers={"reward": reward}, flags=flags, ids=ids)
    statistics, segment = _group_moments(reward, mask, group, role)
    right = episode_returns(reward, mask)[0] > threshold
    penalty = jnp.where(right, _trace_penalty(mask, valid, well_formed, tool_call), 0.0)
    quota = _quotas(segment, right, keep, min_wrong, min_right)
    present = segment < mask.shape[0]
    return present & ~statistics.constant & (_ranks(segment, right, penalty) < quota)


def _quotas(segment, right, keep, min_wrong, min_right) -> jax.Array:
    """How many right (for a right stream) or wrong streams of its group are kept, i32[N]."""
    count = segment.shape[0]

    def in_group(x):
        return jax.ops.segment_sum(x.astype(jnp.int32), segment, num_segments=count + 1)[segment]

    size, correct = in_group(jnp.ones(count)), in_group(right)
    wrong = size - correct
    keep_wrong = jnp.round(keep * wrong / size).astype(jnp.int32)
    least = jnp.minimum(min_wrong, wrong)
    keep_wrong = jnp.where(keep_wrong <= least, least, keep_wrong)
    keep_right = keep - keep_wrong
    least = jnp.minimum(min_right, correct)
    keep_right = jnp.where(keep_right <= least, least, keep_right)
    return jnp.where(right, keep_right, keep - keep_right)


def _ranks(segment, right, penalty) -> jax.Array:
    """Rank by penalty, then order, among the right or the wrong streams of its group, i32[N]."""
    count = segment.shape[0]
    order = jnp.lexsort((penalty, right, segment))
    kind, index = (2 * segment + right)[order], jnp.arange(count, dtype=jnp.int32)
    first = jax.ops.segment_min(index, kind, num_segments=2 * count + 2)[kind]
    return jnp.zeros(count, jnp.int32).at[order].set(index - first)


def _trace_penalty(mask, valid, well_formed, tool_call) -> jax.Array:
    """p_error + p_format of each stream, f32[N], see `resample_on_correct`."""
    calls = mask if tool_call is None else mask & tool_call
    number = jnp.sum(calls, axis=1)
    errors = jnp.sum(calls & ~valid, axis=1) / jnp.maximum(number, 1)
    penalty = jnp.where(number > 0, errors, 0.5)
    if well_formed is None:
        return penalty
    malformed = jnp.sum(mask & ~well_formed, axis=1)
    return penalty + malformed / jnp.maximum(jnp.sum(mask, axis=1), 1)
