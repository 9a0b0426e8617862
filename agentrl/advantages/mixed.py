"""MAPO: Monte-Carlo returns by turn number, mixed with rewards by pool."""

from typing import Literal, get_args

import jax
import jax.numpy as jnp

from agentrl.advantages.grouping import (
    as_advantage,
    moments,
    number_segments,
    relative,
    turn_segments,
)
from agentrl.checks import check_choice, check_range, check_streams
from agentrl.declarations import assumes
from agentrl.rewards import discounted_return

Pool = Literal["group", "batch"]


@assumes("whole_episodes")
def mapo(
    reward: jax.Array,
    mask: jax.Array,
    group: jax.Array,
    *,
    gamma: float = 1.0,
    turn_weight: float = 0.5,
    pool: Pool = "group",
    role: jax.Array | None = None,
    epsilon: float = 1e-8,
) -> jax.Array:
    """Mixed advantage: returns to go among equal turn numbers, and rewards among all turns.

      A = turn_weight * A_turn + (1 - turn_weight) * A_pool,
      A_turn[i, t] = (G[i, t] - mean_{g, t}(G)) / (std_{g, t}(G) + epsilon),
      A_pool[i, t] = (r[i, t] - mean_p(r)) / (std_p(r) + epsilon),

    with G the discounted return to go, (g, t) the streams of the group that have a turn number t,
    and p all turns of the group, or of the batch. Deviations divide by n (ddof 0). It is meant for
    dense rewards, such as the decrease of a judged distance from the goal.

    Args:
      reward: f32[N, T].
      mask: bool[N, T], the agent acted. The turn number counts the stream's own turns.
      group: i32[N], any ids.
      gamma: discount in [0, 1]; 1 for rewards that are differences of a potential.
      turn_weight: the paper's alpha, in [0, 1] (0.5 to 0.7 are reported best); beta is 1 - alpha.
      pool: "group" as in the paper's third version, or "batch" as in its first abstract.
      role: i32[N], any ids; streams of different roles are compared apart.
      epsilon: added to the deviations.

    Returns:
      f32[N, T], 0 where mask is False, gradient stopped. A turn number that one stream alone has
      reached gives A_turn = 0.

    Raises:
      ValueError: an unknown pool, a number outside its range, or arrays of other shapes or types.

    References:
      MAPO, later MICA (2026), https://arxiv.org/abs/2603.06194. Formulas from two independent
      readings of its third version; neither the paper's text nor code was read.
    """
    check_choice("pool", pool, get_args(Pool))
    check_range("mapo gamma", gamma, 0.0, 1.0)
    check_range("mapo turn_weight", turn_weight, 0.0, 1.0)
    check_streams("mapo", mask, numbers={"reward": reward}, ids={"group": group, "role": role})
    shape = mask.shape
    same_number = number_segments(mask, *(k for k in (group, role) if k is not None))
    kept = (group if pool == "group" else None, role)
    pooled = turn_segments(mask, *(key for key in kept if key is not None))
    values = jnp.where(mask, jnp.asarray(reward, jnp.float32), 0.0)
    returns = discounted_return(reward, mask, gamma=gamma)
    scale = discounted_return(jnp.abs(values), mask, gamma=gamma)

    def standardised(x, segment, scale):
        against = moments(x.reshape(-1), segment, scale=scale.reshape(-1))
        n = against.count
        population = against.std * jnp.sqrt(jnp.maximum(n - 1, 0) / jnp.maximum(n, 1))
        against = against._replace(std=population)
        return relative(x.reshape(-1), against, normalize="std", epsilon=epsilon).reshape(shape)

    by_turn = standardised(returns, same_number, scale)
    by_pool = standardised(values, pooled, jnp.abs(values))
    return as_advantage(turn_weight * by_turn + (1 - turn_weight) * by_pool, mask)
