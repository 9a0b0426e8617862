"""Advantages relative to a group of streams from the same task: GRPO, RLOO, GiGPO."""

from typing import Literal, get_args

import jax
import jax.numpy as jnp

from agentrl.advantages.grouping import (
    Moments,
    Normalize,
    Singleton,
    as_advantage,
    group_segments,
    joint_segments,
    moments,
    per_turn,
    relative,
    turn_segments,
)
from agentrl.checks import check_choice, check_range, check_streams
from agentrl.declarations import assumes
from agentrl.rewards import discounted_return

Statistics = Literal["stream", "turn"]


def episode_returns(reward: jax.Array, mask: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(R, scale), f32[N]: each stream's undiscounted return, and the magnitude it is summed from.

    R_i = sum_t r[i, t], scale_i = sum_t |r[i, t]|, over acted turns.
    """
    reward = jnp.where(mask, jnp.asarray(reward, jnp.float32), 0.0)
    return jnp.sum(reward, axis=1), jnp.sum(jnp.abs(reward), axis=1)


def _turn_moments(
    score: jax.Array, scale: jax.Array, mask: jax.Array, group: jax.Array, role: jax.Array | None
) -> Moments:
    """Moments [N, T] of the scores of all turns of a group, i.e. long episodes weigh more."""
    acted, shape = jnp.asarray(mask).reshape(-1), mask.shape
    segment = turn_segments(mask, *(key for key in (group, role) if key is not None))
    statistics = moments(
        jnp.where(acted, score.reshape(-1), 0.0), segment, scale=jnp.where(acted, scale, 0.0)
    )
    return Moments(*(field.reshape(shape) for field in statistics))


def _stream_moments(
    returns: jax.Array, scale: jax.Array, mask: jax.Array, group: jax.Array, role: jax.Array | None
) -> Moments:
    """Moments [N, 1] of the returns of all streams of a group."""
    segment = group_segments(group, jnp.any(mask, axis=1), role)
    return Moments(*(field[:, None] for field in moments(returns, segment, scale=scale)))


def _episode_advantage(
    reward: jax.Array,
    mask: jax.Array,
    group: jax.Array,
    role: jax.Array | None,
    penalty: jax.Array | None,
    *,
    normalize: Normalize,
    statistics: Statistics,
    singleton: Singleton,
    epsilon: float,
    leave_one_out: bool = False,
) -> jax.Array:
    check_choice("statistics", statistics, get_args(Statistics))
    returns, scale = episode_returns(reward, mask)
    score = jnp.broadcast_to(returns[:, None], mask.shape)
    scale_of_turn = per_turn(scale, mask.shape)
    if penalty is not None:
        penalty = jnp.where(mask, jnp.asarray(penalty, jnp.float32), 0.0)
        score = score - penalty
        scale_of_turn = scale_of_turn + jnp.abs(penalty).reshape(-1)
    if statistics == "stream":
        compared, against = returns[:, None], _stream_moments(returns, scale, mask, group, role)
    else:
        compared, against = score, _turn_moments(score, scale_of_turn, mask, group, role)
    advantage = relative(
        score,
        against,
        compared=compared,
        normalize=normalize,
        epsilon=epsilon,
        leave_one_out=leave_one_out,
        singleton=singleton,
    )
    return jnp.where(mask, advantage, 0.0)


@assumes("whole_episodes")
def grpo(
    reward: jax.Array,
    mask: jax.Array,
    group: jax.Array,
    *,
    normalize: Normalize = "std",
    statistics: Statistics = "stream",
    singleton: Singleton = "zero",
    penalty: jax.Array | None = None,
    role: jax.Array | None = None,
    epsilon: float = 1e-6,
) -> jax.Array:
    """Group-relative advantage: the episode's return against its group.

    A[i, t] = (S[i, t] - mean_g) / (std_g + epsilon), S[i, t] = R_i - penalty[i, t], with R_i the
    undiscounted sum of the stream's rewards.

    Choose the statistics with the penalty in mind. With statistics="stream" and normalize="std" a
    penalty is divided by a deviation that does not contain it. Four streams of one turn earn 0, 0,
    0 and x, and the first has a penalty of 0.1: its advantage is 0 for x = 0 (the group is
    constant), -200 for x = 0.001, -2.5 for x = 0.1 and -0.7 for x = 1. statistics="turn" includes
    the penalty in the deviation (-1.5, -1.5, -1.2, -0.6), and normalize="mean" does not divide.

    Args:
      reward: f32[N, T].
      mask: bool[N, T], the agent acted.
      group: i32[N], any ids.
      normalize: "std", or "mean" for no division (Dr. GRPO).
      statistics: "stream", one return per stream, without penalties (the papers' equation); or
        "turn", the scores of all turns, so that long episodes weigh more (the default of the GiGPO
        code base).
      singleton: a group of one stream (one turn, with statistics="turn") gives "zero", or its "raw"
        score as the reference does.
      penalty: f32[N, T], subtracted from the turn's own score only.
      role: i32[N], any ids; streams of different roles are compared apart. None: all of a group are
        compared.
      epsilon: added to the standard deviation (ddof 1), outside the root.

    Returns:
      f32[N, T], 0 where mask is False, gradient stopped. A group of equal returns gives exactly 0
      (with normalize="mean" and statistics="stream": minus the turn's penalty). Returns are equal
      if they differ by no more than float32 rounding of the rewards that they sum.

    Raises:
      ValueError: an unknown choice, a negative epsilon, or arrays of other shapes or types.

    References:
      Shao et al. (2024), DeepSeekMath, https://arxiv.org/abs/2402.03300. Liu et al. (2025), Dr.
      GRPO, https://arxiv.org/abs/2503.20783. Read in code: verl-agent 796ed31.
    """
    numbers, ids = {"reward": reward, "penalty": penalty}, {"group": group, "role": role}
    check_streams("grpo", mask, numbers=numbers, ids=ids)
    advantage = _episode_advantage(
        reward,
        mask,
        group,
        role,
        penalty,
        normalize=normalize,
        statistics=statistics,
        singleton=singleton,
        epsilon=epsilon,
    )
    return as_advantage(advantage, mask)


@assumes("whole_episodes")
def rloo(
    reward: jax.Array,
    mask: jax.Array,
    group: jax.Array,
    *,
    statistics: Statistics = "stream",
    singleton: Singleton = "zero",
    penalty: jax.Array | None = None,
    role: jax.Array | None = None,
) -> jax.Array:
    """Leave-one-out advantage: the return minus the mean return of the others in the group.

    A[i, t] = n / (n - 1) (S[i, t] - mean_g), S[i, t] = R_i - penalty[i, t].

    Args:
      reward, mask, group, singleton, penalty, role: as for `grpo`.
      statistics: n counts "stream"s, or "turn"s (the reference: the factor is then close to 1).

    Returns:
      f32[N, T], 0 where mask is False, gradient stopped.

    Raises:
      ValueError: an unknown choice, or arrays of other shapes or types.

    References:
      Ahmadian et al. (2024), Back to basics, https://arxiv.org/abs/2402.14740. Read in code:
      verl-agent 796ed31.
    """
    numbers, ids = {"reward": reward, "penalty": penalty}, {"group": group, "role": role}
    check_streams("rloo", mask, numbers=numbers, ids=ids)
    advantage = _episode_advantage(
        reward,
        mask,
        group,
        role,
        penalty,
        normalize="mean",
        statistics=statistics,
        singleton=singleton,
        epsilon=0.0,
        leave_one_out=True,
    )
    return as_advantage(advantage, mask)


def anchor_segments(
    mask: jax.Array, group: jax.Array, anchor: jax.Array, *, role: jax.Array | None = None
) -> jax.Array:
    """Anchor group of each turn, named by its first member.

    Two turns are in one anchor group iff their streams are of the same group (and the same role,
    where roles are given) and their anchors are equal, whatever their stream and turn number.

    Args:
      mask: bool[N, T], the agent acted.
      group: i32[N], any ids.
      anchor: u32[N, T, 2], fingerprint of what each turn was acted from.
      role: i32[N], any ids; turns of different roles are in different groups.

    Returns:
      i32[N, T], flat index (stream * T + turn) of the first member; N * T where not acted.

    Raises:
      ValueError: arrays of other shapes or types.
    """
    check_streams("anchor_segments", mask, ids={"group": group, "role": role})
    shape = jnp.shape(mask)
    if jnp.shape(anchor) != (*shape, 2):
        raise ValueError(
            f"anchor has shape {jnp.shape(anchor)}; expected {(*shape, 2)}, two u32 words per turn"
        )
    words = jnp.asarray(anchor).astype(jnp.uint32).reshape(-1, 2)
    ids = [per_turn(key, shape).astype(jnp.uint32) for key in (group, role) if key is not None]
    return joint_segments(jnp.asarray(mask).reshape(-1), *ids, *words.T).reshape(shape)


@assumes("whole_episodes")
def gigpo(
    reward: jax.Array,
    mask: jax.Array,
    group: jax.Array,
    anchor: jax.Array,
    *,
    gamma: float = 0.95,
    step_weight: float = 1.0,
    normalize: Normalize = "std",
    statistics: Statistics = "stream",
    singleton: Singleton = "zero",
    penalty: jax.Array | None = None,
    role: jax.Array | None = None,
    epsilon: float = 1e-6,
) -> jax.Array:
    """Group-in-group advantage: GRPO's episode term plus a step term within anchor groups.

    A = A_E + step_weight * A_S, with A_E as in `grpo` and

      G[i, t] = sum_{k >= t} gamma^(k - t) r[i, k] - penalty[i, t],
      A_S[i, t] = (G[i, t] - mean_C) / (std_C + epsilon),

    where C holds all turns of the same group that were acted from the same anchor, repeated visits
    of one stream included. A lone anchor gives A_S = 0; equal returns give exactly 0. gamma is used
    in the step term only.

    Penalties and division do not go together. Turns of an anchor group whose returns are equal
    differ by their penalties alone; divided by the deviation of these, they weigh as much as turns
    that decide the task, however small the penalty. In words this undoes what a policy had learnt;
    without the penalty, not divided, or with an epsilon well above it, the same runs gain
    (configs/words/README.md, "GiGPO, part by part").

    Args:
      reward: f32[N, T].
      mask: bool[N, T], the agent acted.
      group: i32[N], any ids.
      anchor: u32[N, T, 2], fingerprint of what each turn was acted from.
      gamma: discount of the step returns, in [0, 1]; with sparse reward and gamma below 1, quicker
        ways from an anchor are better.
      step_weight: the paper's omega; 0 gives GRPO.
      normalize, statistics, singleton, penalty, role, epsilon: as for `grpo`.

    Returns:
      f32[N, T], 0 where mask is False, gradient stopped.

    Raises:
      ValueError: an unknown choice, gamma outside [0, 1], a negative epsilon, or arrays of other
        shapes or types.

    References:
      Feng et al. (2025), Group-in-Group Policy Optimization, https://arxiv.org/abs/2505.10978. Read
      and executed: verl-agent 796ed31, whose default is statistics="turn", singleton="raw". There
      "normalize" is called mean_std_norm or mean_norm.
    """
    check_range("gigpo gamma", gamma, 0.0, 1.0)
    numbers, ids = {"reward": reward, "penalty": penalty}, {"group": group, "role": role}
    check_streams("gigpo", mask, numbers=numbers, ids=ids)
    episode = _episode_advantage(
        reward,
        mask,
        group,
        role,
        penalty,
        normalize=normalize,
        statistics=statistics,
        singleton=singleton,
        epsilon=epsilon,
    )
    step_return = discounted_return(reward, mask, gamma=gamma)
    scale = discounted_return(jnp.abs(reward), mask, gamma=gamma)
    if penalty is not None:
        penalty = jnp.where(mask, penalty, 0.0)
        step_return, scale = step_return - penalty, scale + jnp.abs(penalty)
    step_return = step_return.reshape(-1)
    segment = anchor_segments(mask, group, anchor, role=role).reshape(-1)
    against = moments(step_return, segment, scale=scale.reshape(-1))
    step = relative(step_return, against, normalize=normalize, epsilon=epsilon)
    return as_advantage(episode + step_weight * step.reshape(mask.shape), mask)
