"""Advantages relative to a group of streams from the same task: GRPO, RLOO, GiGPO."""

import chex
import jax
import jax.numpy as jnp

from agentrl.advantages.grouping import (
    Moments,
    choice,
    first_occurrence,
    group_owner,
    moments,
    relative,
)
from agentrl.rewards import discounted_return


def _turn_scores(
    reward: jax.Array, mask: jax.Array, penalty: jax.Array | None
) -> tuple[jax.Array, jax.Array]:
    """The episode's undiscounted return R [N], and each turn's score R - penalty [N, T]."""
    chex.assert_rank([reward, mask], 2)
    chex.assert_equal_shape([reward, mask])
    episode_return = jnp.sum(jnp.where(mask, reward, 0), axis=1)
    score = jnp.broadcast_to(episode_return[:, None], reward.shape)
    if penalty is not None:
        chex.assert_equal_shape([reward, penalty])
        score = score - jnp.where(mask, penalty, 0)
    return episode_return, score


def _episode_moments(
    episode_return: jax.Array,
    score: jax.Array,
    mask: jax.Array,
    group: jax.Array,
    statistics: str,
) -> Moments:
    """Moments of each turn's group [N, T], over streams' returns or over all turns' scores."""
    shape = mask.shape
    if statistics == "stream":
        per_stream = moments(episode_return, group_owner(group, jnp.any(mask, axis=1)))
        return Moments(*(jnp.broadcast_to(field[:, None], shape) for field in per_stream))
    per_turn = jnp.broadcast_to(jnp.asarray(group)[:, None], shape).reshape(-1)
    flat = moments(
        jnp.where(mask, score, 0).reshape(-1), group_owner(per_turn, jnp.asarray(mask).reshape(-1))
    )
    return Moments(*(field.reshape(shape) for field in flat))


def _episode_advantage(
    reward, mask, group, *, normalize, statistics, singleton, penalty, epsilon, leave_one_out=False
):
    choice("statistics", statistics, ("stream", "turn"))
    episode_return, score = _turn_scores(reward, mask, penalty)
    advantage = relative(
        score,
        _episode_moments(episode_return, score, mask, group, statistics),
        of=episode_return[:, None] if statistics == "stream" else score,
        normalize=normalize,
        epsilon=epsilon,
        leave_one_out=leave_one_out,
        singleton=singleton,
    )
    return jnp.where(mask, advantage, 0.0)


def grpo(
    reward: jax.Array,
    mask: jax.Array,
    group: jax.Array,
    *,
    normalize: str = "std",
    statistics: str = "stream",
    singleton: str = "zero",
    penalty: jax.Array | None = None,
    epsilon: float = 1e-6,
) -> jax.Array:
    """Group-relative advantage: the episode's return against its group.

    A[i, t] = (S[i, t] - mean_g) / (std_g + epsilon), S[i, t] = R_i - penalty[i, t], with R_i the
    undiscounted sum of the stream's rewards.

    Args:
      reward: f32[N, T]; mask: bool[N, T]; group: i32[N], any ids.
      normalize: "std", or "mean" for no division (Dr. GRPO).
      statistics: "stream", over one return a stream, without penalties (the papers' equation);
        or "turn", over the scores of all turns, so that long episodes weigh more (what the GiGPO
        code base runs by default).
      singleton: a group of one stream (one turn, by `statistics`) gives "zero", or its "raw" score
        as the reference does.
      penalty: f32[N, T], subtracted from the turn's own score only.
      epsilon: added to the standard deviation (ddof 1), outside the root.

    Returns:
      f32[N, T], 0 where mask is False. A group of equal returns gives exactly 0 (with
      normalize="mean" and statistics="stream": minus the turn's penalty).

    References:
      Shao et al. (2024), DeepSeekMath, https://arxiv.org/abs/2402.03300. Liu et al. (2025), Dr.
      GRPO, https://arxiv.org/abs/2503.20783. Read in code: verl-agent 796ed31.
    """
    return _episode_advantage(
        reward,
        mask,
        group,
        normalize=normalize,
        statistics=statistics,
        singleton=singleton,
        penalty=penalty,
        epsilon=epsilon,
    )


def rloo(
    reward: jax.Array,
    mask: jax.Array,
    group: jax.Array,
    *,
    statistics: str = "stream",
    singleton: str = "zero",
    penalty: jax.Array | None = None,
) -> jax.Array:
    """Leave-one-out advantage: the return minus the mean return of the others in the group.

    A[i, t] = n / (n - 1) (S[i, t] - mean_g), S[i, t] = R_i - penalty[i, t]; n counts streams, or
    turns with statistics="turn" (the reference: its factor is then close to 1). Arguments and
    result as for `grpo`.

    References:
      Ahmadian et al. (2024), Back to basics, https://arxiv.org/abs/2402.14740. Read in code:
      verl-agent 796ed31.
    """
    return _episode_advantage(
        reward,
        mask,
        group,
        normalize="mean",
        statistics=statistics,
        singleton=singleton,
        penalty=penalty,
        epsilon=0.0,
        leave_one_out=True,
    )


def anchor_owner(mask: jax.Array, group: jax.Array, anchor: jax.Array) -> jax.Array:
    """Anchor group of each turn, i32[N, T]: flat index of its first member, N*T where not acted.

    Two turns share an anchor group iff they are of the same group and have the same anchor,
    whatever their stream and turn number.
    """
    chex.assert_shape(anchor, (*mask.shape, 2))
    ids = jnp.broadcast_to(jnp.asarray(group)[:, None, None], (*mask.shape, 1)).astype(jnp.uint32)
    keys = jnp.concatenate([ids, jnp.asarray(anchor).astype(jnp.uint32)], axis=-1).reshape(-1, 3)
    return first_occurrence(keys, jnp.asarray(mask).reshape(-1)).reshape(mask.shape)


def gigpo(
    reward: jax.Array,
    mask: jax.Array,
    group: jax.Array,
    anchor: jax.Array,
    *,
    gamma: float = 0.95,
    step_weight: float = 1.0,
    normalize: str = "std",
    statistics: str = "stream",
    singleton: str = "zero",
    penalty: jax.Array | None = None,
    epsilon: float = 1e-6,
) -> jax.Array:
    """Group-in-group advantage: GRPO's episode term plus a step term within anchor groups.

    A = A_E + step_weight * A_S, with A_E as in `grpo` and

      G[i, t] = sum_{k >= t} gamma^(k - t) r[i, k] - penalty[i, t],
      A_S[i, t] = (G[i, t] - mean_C) / (std_C + epsilon),

    where C holds all turns of the same group that were acted from the same anchor, repeated visits
    of one stream included. A lone anchor gives A_S = 0; equal returns give exactly 0. gamma is used
    in the step term only.

    Args:
      reward, mask, group, normalize, statistics, singleton, penalty, epsilon: as for `grpo`.
      anchor: u32[N, T, 2], fingerprint of what each turn was acted from.
      gamma: discount of the step returns; with sparse reward and gamma below 1, quicker ways from
        an anchor are better.
      step_weight: the paper's omega; 0 gives GRPO.

    Returns:
      f32[N, T], 0 where mask is False.

    References:
      Feng et al. (2025), Group-in-Group Policy Optimization, https://arxiv.org/abs/2505.10978. Read
      and executed: verl-agent 796ed31, whose default is statistics="turn", singleton="raw". There
      "normalize" is called mean_std_norm or mean_norm.
    """
    episode = _episode_advantage(
        reward,
        mask,
        group,
        normalize=normalize,
        statistics=statistics,
        singleton=singleton,
        penalty=penalty,
        epsilon=epsilon,
    )
    step_return = discounted_return(reward, mask, gamma=gamma)
    if penalty is not None:
        step_return = step_return - jnp.where(mask, penalty, 0)
    step_return = step_return.reshape(-1)
    anchors = moments(step_return, anchor_owner(mask, group, anchor).reshape(-1))
    step = relative(step_return, anchors, normalize=normalize, epsilon=epsilon)
    return episode + step_weight * jnp.where(mask, step.reshape(mask.shape), 0.0)
