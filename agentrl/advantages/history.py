"""HGPO: step groups of turns that share more and more of their history, weighted by how much."""

from typing import get_args

import jax
import jax.numpy as jnp

from agentrl.advantages.group_relative import Statistics, grpo
from agentrl.advantages.grouping import (
    Normalize,
    Singleton,
    as_advantage,
    joint_segments,
    moments,
    per_turn,
    relative,
)
from agentrl.checks import check_choice, check_range, check_streams
from agentrl.declarations import assumes
from agentrl.rewards import discounted_return


@assumes("whole_episodes")
def hgpo(
    reward: jax.Array,
    mask: jax.Array,
    group: jax.Array,
    anchor: jax.Array,
    *,
    gamma: float = 0.95,
    history: int = 2,
    alpha: float = 1.0,
    base: bool = False,
    normalize: Normalize = "std",
    statistics: Statistics = "stream",
    singleton: Singleton = "zero",
    penalty: jax.Array | None = None,
    role: jax.Array | None = None,
    epsilon: float = 1e-6,
) -> jax.Array:
    """Step advantages within groups of equal last anchors, k = 1 to history + 1 of them.

      A[i, t] = sum_k w_k a_k / (sum_k w_k + epsilon),  w_k = (k + 1)^alpha,
      a_k = (G[i, t] - mean_{C_k}(G)) / (std_{C_k}(G) + epsilon),

    with G the discounted return to go less the turn's penalty, as in `gigpo`, and C_k the turns of
    the group whose last k anchors, their own included, are the same. k = 1 is GiGPO's anchor group.
    Sums are over the k for which C_k has two turns or more and a_k is not 0; without any, A = 0.

    Args:
      reward, mask, group, anchor, gamma: as for `gigpo`.
      history: anchors before the turn's own, at least 0; what the policy reads of the past.
      alpha: at least 0; 0 weighs all groups alike.
      base: whether the episode's advantage (`grpo`) is one of them, with w = 1. As published there
        is none, and a turn that no other shares gets nothing.
      normalize: "std" (deviations with n, as in the reference), or "mean" for no division.
      statistics, singleton: of the episode's advantage, as for `grpo`.
      penalty, role, epsilon: as for `gigpo`.

    Returns:
      f32[N, T], 0 where mask is False, gradient stopped.

    Raises:
      ValueError: an unknown choice, a number outside its range, or arrays of other shapes or types.

    References:
      HGPO (ICLR 2026). Read and executed: verl-agent 796ed31, recipe/hgpo, whose values are tests.
      What is "not 0" there depends on the rounding of float32; here equal returns give exactly 0.
    """
    check_choice("statistics", statistics, get_args(Statistics))
    check_choice("singleton", singleton, get_args(Singleton))
    check_range("hgpo gamma", gamma, 0.0, 1.0)
    check_range("hgpo history", history, 0)
    check_range("hgpo alpha", alpha, 0.0)
    numbers, ids = {"reward": reward, "penalty": penalty}, {"group": group, "role": role}
    check_streams("hgpo", mask, numbers=numbers, ids=ids, vectors={"anchor": anchor})
    values = jnp.where(mask, jnp.asarray(reward, jnp.float32), 0.0)
    returns, scale = (discounted_return(x, mask, gamma=gamma) for x in (values, jnp.abs(values)))
    if penalty is not None:
        cost = jnp.where(mask, penalty, 0.0)
        returns, scale = returns - cost, scale + jnp.abs(cost)
    returns, scale = returns.reshape(-1), scale.reshape(-1)
    total = weights = jnp.zeros_like(returns)
    if base:
        outcome = grpo(
            reward,
            mask,
            group,
            normalize=normalize,
            statistics=statistics,
            singleton=singleton,
            penalty=penalty,
            role=role,
            epsilon=epsilon,
        ).reshape(-1)
        total, weights = outcome, (outcome != 0) * 1.0
    keys = [per_turn(key, mask.shape) for key in (group, role) if key is not None]
    number = jnp.cumsum(mask, axis=1) - 1
    for before in range(history + 1):
        past = _anchors_before(anchor, mask, number, before).reshape(-1, 2)
        there = (mask & (number >= before)).reshape(-1)
        segment = joint_segments(there, *keys, past[:, 0], past[:, 1])
        keys = [segment]  # equal so far
        against = moments(returns, segment, scale=scale)
        n = against.count
        population = against.std * jnp.sqrt(jnp.maximum(n - 1, 0) / jnp.maximum(n, 1))
        against = against._replace(std=population)
        one = relative(returns, against, normalize=normalize, epsilon=epsilon)
        weight = jnp.where(there & (n >= 2) & (one != 0), (before + 2.0) ** alpha, 0.0)
        total, weights = total + jnp.where(weight > 0, weight * one, 0.0), weights + weight
    average = jnp.where(weights > 0, total / jnp.where(weights > 0, weights + epsilon, 1.0), 0.0)
    return as_advantage(average.reshape(mask.shape), mask)


def _anchors_before(
    anchor: jax.Array, mask: jax.Array, number: jax.Array, before: int
) -> jax.Array:
    """The anchor of the turn that the agent acted in `before` turns earlier, u32[N, T, 2]."""
    rows = jnp.arange(mask.shape[0])[:, None]
    place = jnp.where(mask, number, mask.shape[1])
    packed = jnp.zeros_like(anchor).at[rows, place].set(anchor, mode="drop")
    return packed[rows, jnp.maximum(number - before, 0)]
