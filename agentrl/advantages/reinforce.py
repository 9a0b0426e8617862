"""REINFORCE++ and its baseline variant, and the whitening they rest on."""

import jax
import jax.numpy as jnp

from agentrl.advantages.group_relative import Statistics, grpo
from agentrl.advantages.grouping import Singleton, as_advantage
from agentrl.checks import ROUNDING, check_range, check_streams
from agentrl.declarations import assumes
from agentrl.rewards import discounted_return


def whiten(values: jax.Array, mask: jax.Array, *, frequency: jax.Array | None = None) -> jax.Array:
    """Shifts and scales to mean 0 and variance 1 over the masked entries; 0 elsewhere.

    (x - mean) / sqrt(var + 1e-8), with the unbiased variance n / (n - 1) E[(x - mean)^2].

    Args:
      values: f32[...].
      mask: bool[...], the entries that count.
      frequency: f32[...], how often an entry counts (the number of tokens of a turn); n is then the
        sum of the frequencies.

    Returns:
      f32[...], gradient stopped. Entries that are equal up to float32 rounding give exactly 0, and
      so does a single entry.
    """
    mask = jnp.asarray(mask)
    counts = jnp.where(mask, 1.0 if frequency is None else frequency, 0.0).astype(jnp.float32)
    counted = counts > 0
    values = jnp.where(mask, jnp.asarray(values, jnp.float32), 0.0)
    n = jnp.sum(counts)
    divisor = jnp.where(n > 0, n, 1.0)
    mean = jnp.sum(values * counts) / divisor
    # The first mean is off by a rounding error of the sum, which the second pass takes away.
    mean = mean + jnp.sum((values - mean) * counts) / divisor
    away = values - mean
    variance = jnp.sum(jnp.square(away) * counts) / jnp.where(n > 0, jnp.maximum(n - 1, n / 2), 1.0)
    farthest = jnp.max(jnp.where(counted, jnp.abs(away), 0.0))
    constant = farthest <= ROUNDING * jnp.max(jnp.where(counted, jnp.abs(values), 0.0))
    single = n <= 1 if frequency is None else jnp.sum(counted) <= 1
    return as_advantage(away * jax.lax.rsqrt(variance + 1e-8), mask & ~constant & ~single)


@assumes("whole_episodes", "tokens_as_cost")
def reinforce_pp(
    reward: jax.Array,
    mask: jax.Array,
    *,
    gamma: float = 1.0,
    penalty: jax.Array | None = None,
    cost: jax.Array | None = None,
) -> jax.Array:
    """REINFORCE++: return to go of each turn, whitened over the whole batch; no groups.

    A = whiten(G - penalty), G[i, t] = sum_{k >= t} gamma^(k - t) r[i, k] over acted turns.

    Args:
      reward: f32[N, T].
      mask: bool[N, T], the agent acted.
      gamma: discount once per own turn, in [0, 1].
      penalty: f32[N, T], subtracted from the turn's own return to go.
      cost: f32[N, T], tokens of each turn; a turn counts as often as it has tokens (the reference
        whitens over tokens). None: every turn counts once.

    Returns:
      f32[N, T], 0 where mask is False, gradient stopped.

    Raises:
      ValueError: gamma outside [0, 1], or arrays of other shapes or types.

    Deviation: verl's code zeroes the running return at every masked position, so that in rows with
    tool replies everything before the last reply gets return 0. Here gaps are passed over.

    References:
      Hu et al. (2025), REINFORCE++, https://arxiv.org/abs/2501.03262. Executed: verl b178a3c.
    """
    check_range("reinforce_pp gamma", gamma, 0.0, 1.0)
    numbers = {"reward": reward, "penalty": penalty, "cost": cost}
    check_streams("reinforce_pp", mask, numbers=numbers)
    returns = discounted_return(reward, mask, gamma=gamma)
    if penalty is not None:
        returns = returns - jnp.where(mask, penalty, 0.0)
    return whiten(returns, mask, frequency=cost)


@assumes("whole_episodes", "tokens_as_cost")
def reinforce_pp_baseline(
    reward: jax.Array,
    mask: jax.Array,
    group: jax.Array,
    *,
    statistics: Statistics = "stream",
    singleton: Singleton = "zero",
    penalty: jax.Array | None = None,
    role: jax.Array | None = None,
    cost: jax.Array | None = None,
) -> jax.Array:
    """REINFORCE++ with a group baseline: return minus the group's mean, whitened over the batch.

    A = whiten(S - mean_g), S[i, t] = R_i - penalty[i, t].

    Args:
      reward, mask, group, statistics, singleton, penalty, role: as for `grpo`. The reference is
        statistics="turn", singleton="raw".
      cost: f32[N, T], tokens of each turn, as for `reinforce_pp`.

    Returns:
      f32[N, T], 0 where mask is False, gradient stopped.

    Raises:
      ValueError: an unknown choice, or arrays of other shapes or types.

    References:
      Hu et al. (2025), REINFORCE++, https://arxiv.org/abs/2501.03262. Executed: verl-agent 796ed31.
    """
    check_streams("reinforce_pp_baseline", mask, numbers={"cost": cost})
    centred = grpo(
        reward,
        mask,
        group,
        normalize="mean",
        statistics=statistics,
        singleton=singleton,
        penalty=penalty,
        role=role,
    )
    return whiten(centred, mask, frequency=cost)
