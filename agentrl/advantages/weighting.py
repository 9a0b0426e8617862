"""Reweightings: by the time of a turn, by rollout, by what a group or a turn has to say."""

import jax
import jax.numpy as jnp

from agentrl.advantages.filtering import dynamic_sampling
from agentrl.advantages.grouping import group_segments
from agentrl.checks import check_range, check_rows, check_streams
from agentrl.declarations import assumes
from agentrl.streams import PerTurn


def duration_aware(
    advantage: jax.Array,
    mask: jax.Array,
    duration: jax.Array,
    *,
    cap: float | None = 10.0,
) -> jax.Array:
    """Advantages times the turn's duration over the batch's mean duration.

    A[i, t] min(d[i, t] / mean(d), cap), with the mean over all turns where mask is True. Where an
    action is sampled in proportion to its probability over its duration, the weight takes that
    back. The paper says so of all that is collected in a fixed time. It holds where each worker
    repeats one action; not where a worker draws another whenever one ends: if the last one is
    finished, each action is seen as often as it is chosen (Wald's identity), and if it is lost,
    long ones are missed at the end alone. There, as in a batch that waits for all its episodes, the
    weight favours slow actions, unless advantages have a mean of 0 (configs/credit/README.md,
    "jobs.py").

    Args:
      advantage: f32[N, T], standardised already if at all. The losses here are positively
        homogeneous in it, so this is a weight on the loss per turn.
      mask: bool[N, T], the agent acted.
      duration: f32[N, T], time of each turn, in any unit; not negative. What failed by a time limit
        counts the time until then.
      cap: largest weight; None for none.

    Returns:
      f32[N, T], 0 where mask is False, gradient stopped. Equal durations change nothing.

    Raises:
      ValueError: a cap not above 0, or arrays of other shapes or types.

    References:
      Yang et al. (2025), Reinforcement learning for machine learning engineering agents,
      https://arxiv.org/abs/2509.01684: the formula as notes on the paper give it; no code was
      published. The cap is ours.
    """
    check_range("duration_aware cap", cap, 0.0, above=True)
    numbers = {"advantage": advantage, "duration": duration}
    check_streams("duration_aware", mask, numbers=numbers)
    time = jnp.where(mask, jnp.asarray(duration, jnp.float32), 0.0)
    mean = jnp.sum(time) / jnp.maximum(jnp.sum(mask), 1)
    weight = jnp.where(mean > 0, time / jnp.where(mean > 0, mean, 1.0), 1.0)
    weight = weight if cap is None else jnp.minimum(weight, cap)
    return jax.lax.stop_gradient(jnp.where(mask, advantage, 0.0) * weight)


def per_rollout_mean(
    advantage: jax.Array | PerTurn,
    loss_mask: jax.Array,
    stream: jax.Array,
    turn: jax.Array,
    episode: jax.Array,
) -> jax.Array:
    """Advantages over the tokens of their rollout, so that each rollout weighs the same.

    A_p / (n_e M), with n_e the tokens that the policy wrote in all rows of episode e, and M the
    number of rows with such tokens. It is meant for a sum over tokens: with
    learner.aggregation="constant", whose divisor does not depend on what was written. A mean over
    tokens, or over rows, weighs a rollout by how much it wrote, or by how many calls it made.

    Args:
      advantage: f32[R, L], or `agentrl.streams.PerTurn` of f32[N, T].
      loss_mask: bool[R, L], tokens that the policy wrote. stream: i32[R]. turn: i32[R, L].
      episode: i32[N], streams of one rollout have the same.

    Returns:
      f32[R, L], 0 where loss_mask is False, gradient stopped.

    Raises:
      ValueError: arrays of other shapes or types.

    References:
      Luo et al. (2025), Agent Lightning, https://arxiv.org/abs/2508.03680; code
      microsoft/agent-lightning c632d8dd, option per_rollout_mean (read; its value is a test).
    """
    advantage = over_positions("per_rollout_mean", advantage, loss_mask, stream, turn)
    if jnp.ndim(episode) != 1:
        raise ValueError(
            f"per_rollout_mean: episode has shape {jnp.shape(episode)}; expected i32[N], one "
            "number per stream"
        )
    written = jnp.sum(loss_mask, axis=1)
    # Episodes by the first stream that has their number.
    first = jnp.argmax(episode[:, None] == episode[None, :], axis=1)
    total = jax.ops.segment_sum(written, first[stream], num_segments=episode.shape[0])
    tokens = total[first[stream]] * jnp.sum(written > 0)
    return jax.lax.stop_gradient(advantage / jnp.maximum(tokens, 1)[:, None])


def over_positions(
    function: str,
    advantage: jax.Array | PerTurn,
    loss_mask: jax.Array,
    stream: jax.Array,
    turn: jax.Array,
) -> jax.Array:
    """Advantages per turn, or per position, at the positions that the policy wrote, f32[R, L].

    0 at the others. function: the name in the error for arrays of other shapes (ValueError).
    """
    if isinstance(advantage, PerTurn):
        check_rows(function, loss_mask, stream, turn)
        _check_two_axes(function, advantage.values)
        spread = advantage.values[stream[:, None], jnp.maximum(turn, 0)]
        advantage = jnp.where(turn >= 0, spread, 0.0)
    else:
        check_rows(function, loss_mask, stream, turn, numbers={"advantage": advantage})
    return jnp.where(loss_mask, advantage, 0.0)


def _check_two_axes(function: str, advantage: jax.Array) -> None:
    if jnp.ndim(advantage) != 2:
        raise ValueError(
            f"{function}: advantage has shape {jnp.shape(advantage)}; expected two axes, streams "
            "and turns or rows and positions"
        )


@assumes("whole_episodes")
def live_group_scale(
    advantage: jax.Array,
    mask: jax.Array,
    reward: jax.Array,
    group: jax.Array,
    *,
    role: jax.Array | None = None,
) -> jax.Array:
    """Advantages times the number of groups over that of groups whose returns are not all equal.

    A loss averaged over all positions gets smaller with each group that has nothing to say; the
    factor takes that back. With `dynamic_sampling` such groups are left out of the mean instead.

    Args:
      advantage: f32[N, T], or f32[R, L].
      mask: bool[N, T], the agent acted. reward: f32[N, T], before any penalty. group: i32[N].
      role: i32[N], any ids; streams of different roles are compared apart.

    Returns:
      f32 of advantage's shape, gradient stopped; unchanged if all groups are alive, or none is.
      Padding is scaled as well and keeps what it holds, 0 in the advantages of this package.

    Raises:
      ValueError: arrays of other shapes or types.

    References:
      Fathom-DeepResearch (2025), RAPO, https://arxiv.org/abs/2509.24107 (text of version 1 read).
      Its replay of a success into a group that failed is `agentrl.methods.success_replay` (with
      when="none"), and its leaving out of solved tasks `agentrl.methods.task_lists.pruned_tasks`.
    """
    _check_two_axes("live_group_scale", advantage)
    alive = dynamic_sampling(reward, mask, group, role=role)
    present = jnp.any(mask, axis=1)
    first = group_segments(group, present, role) == jnp.arange(mask.shape[0])
    count, good = jnp.sum(first), jnp.sum(first & alive)
    factor = jnp.where(good > 0, count / jnp.maximum(good, 1), 1.0)
    return jax.lax.stop_gradient(advantage * factor)


def uncertain_turns(
    advantage: jax.Array,
    mask: jax.Array,
    group: jax.Array,
    turn_entropy: jax.Array,
    *,
    quantile: float = 0.2,
    role: jax.Array | None = None,
) -> jax.Array:
    """Advantages of the turns whose entropy is at least their group's quantile; 0 for the others.

    Args:
      advantage: f32[N, T].
      mask: bool[N, T], the agent acted. group: i32[N], any ids.
      turn_entropy: f32[N, T], mean entropy of the turn's tokens. Component
        `agentrl.methods.turn_entropy.turn_entropy` supplies it.
      quantile: share of a group's turns that is left out, in [0, 1); between two turns it is
        interpolated, as in numpy. 0 keeps all.
      role: i32[N], streams of a group are compared within their role; None: all with all.

    Returns:
      f32[N, T], 0 where mask is False, gradient stopped. Turns that are left out still count in the
      mean's divisor; filter `high_entropy_turns` takes them out of it, as DART's text does.

    Raises:
      ValueError: a quantile outside [0, 1), or arrays of other shapes or types.

    References:
      Li et al. (2025), DART, https://arxiv.org/abs/2509.23866, from notes; in its code
      (Computer-use-agents/dart-gui e0e606d) the mask is only there as comments.
    """
    check_streams("uncertain_turns", mask, numbers={"advantage": advantage})
    kept = kept_by_entropy("uncertain_turns", mask, group, turn_entropy, quantile, role)
    return jax.lax.stop_gradient(jnp.where(kept, advantage, 0.0))


def kept_by_entropy(
    function: str,
    mask: jax.Array,
    group: jax.Array,
    turn_entropy: jax.Array,
    quantile: float,
    role: jax.Array | None,
) -> jax.Array:
    """Turns whose entropy is at least their group's quantile, bool[N, T]; function: in errors."""
    check_range(f"{function} quantile", quantile, 0.0, 1.0, below=True)
    numbers, ids = {"turn_entropy": turn_entropy}, {"group": group, "role": role}
    check_streams(function, mask, numbers=numbers, ids=ids)
    home = group_segments(group, jnp.any(mask, axis=1), role)
    bound = _quantile(jnp.asarray(turn_entropy, jnp.float32), mask, home, quantile)
    return mask & (turn_entropy >= bound[:, None])


def _quantile(values: jax.Array, mask: jax.Array, home: jax.Array, quantile: float) -> jax.Array:
    """The quantile over the turns [N, T] of each stream's segment, f32[N].

    The value of a rank is found bit by bit, in 32 counts over all turns, which takes a seventh of
    the time of a sort by group and value on a CPU.
    """
    home = jnp.minimum(home, mask.shape[0] - 1)

    def counted(here):
        of_stream = jnp.sum(here & mask, axis=1)
        return jax.ops.segment_sum(of_stream, home, num_segments=mask.shape[0])[home]

    # Numbers in the order of the values; -0 is 0.
    bits, sign = jax.lax.bitcast_convert_type(values + 0.0, jnp.uint32), jnp.uint32(1 << 31)
    number = jnp.where(bits >= sign, ~bits, bits | sign)
    at = quantile * jnp.maximum(counted(mask) - 1, 0)
    rank = jnp.floor(at).astype(jnp.int32)

    def narrow(i, found):
        more = found | (sign >> i.astype(jnp.uint32))
        return jnp.where(counted(number < more[:, None]) <= rank, more, found)

    found = jax.lax.fori_loop(0, 32, narrow, jnp.zeros(mask.shape[0], jnp.uint32))
    low = jnp.where(found >= sign, found ^ sign, ~found)
    low = jax.lax.bitcast_convert_type(low, jnp.float32)
    # The next one: equal to it, or the smallest above.
    above = jnp.where(mask & (number > found[:, None]), values, jnp.inf)
    above = jax.ops.segment_min(jnp.min(above, axis=1), home, num_segments=mask.shape[0])[home]
    high = jnp.where(counted(number <= found[:, None]) > rank + 1, low, above)
    part = at - rank
    # Written so that an infinite neighbour of weight 0 is not read.
    return jnp.where(part > 0, low + (high - low) * part, low)
