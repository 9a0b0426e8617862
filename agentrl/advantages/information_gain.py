"""IGPO: information gain of the turns and the outcome, each compared within its group."""

import functools

import jax
import jax.numpy as jnp

from agentrl.advantages.grouping import (
    Normalize,
    as_advantage,
    group_segments,
    moments,
    relative,
    turn_segments,
)
from agentrl.checks import check_range, check_streams
from agentrl.declarations import assumes
from agentrl.rewards.returns import discounted_return
from agentrl.streams import last_turns


@assumes("whole_episodes")
def igpo(
    reward: jax.Array,
    mask: jax.Array,
    group: jax.Array,
    information_gain: jax.Array,
    *,
    gamma: float = 1.0,
    normalize: Normalize = "std",
    epsilon: float = 1e-6,
    role: jax.Array | None = None,
) -> jax.Array:
    """Discounted sum of relative rewards: information gain per turn, the outcome at the last one.

      z_t = (g_t - mean(g)) / (std(g) + epsilon) for turns before the last, over all of them in the
      group; z_T = (R - mean(R)) / (std(R) + epsilon) over the group's streams; A_t = sum_{k >= t}
      gamma^(k - t) z_k.

    Args:
      reward: f32[N, T]; R is a stream's sum.
      mask: bool[N, T], the agent acted.
      group: i32[N].
      information_gain: f32[N, T], by how much the turn has raised the policy's belief in the
        reference answer; read in all turns but a stream's last. `agentrl.methods.igpo` fills it.
      gamma: discount in [0, 1].
      normalize: "std", or "mean" for no division. Deviations are over the sample (ddof 1).
      epsilon: added to the deviations.
      role: i32[N], streams of a group are compared within their role; None: all with all.

    Returns:
      f32[N, T], 0 where mask is False, gradient stopped.

    Raises:
      ValueError: an option outside its range, or arrays of other shapes or types.

    References:
      IGPO (2025), https://arxiv.org/abs/2510.14967, version of ICLR 2026, by a note on it; code
      GuoqingWang1/IGPO bff163b (read). The released estimator is another one, without the division
      and with baselines by token position; it is not implemented here.
    """
    check_range("igpo gamma", gamma, 0.0, 1.0)
    numbers = {"reward": reward, "information_gain": information_gain}
    check_streams("igpo", mask, numbers=numbers, ids={"group": group, "role": role})
    last = last_turns(mask)
    gains = mask & ~last
    gain = jnp.where(gains, information_gain, 0.0).reshape(-1)
    divided = functools.partial(relative, normalize=normalize, epsilon=epsilon)
    keys = (group,) if role is None else (group, role)
    one = divided(gain, moments(gain, turn_segments(gains, *keys)))
    outcome = jnp.sum(jnp.where(mask, reward, 0.0), axis=1)
    present = jnp.any(mask, axis=1)
    whole = divided(outcome, moments(outcome, group_segments(group, present, role)))
    z = jnp.where(gains, one.reshape(mask.shape), jnp.where(last, whole[:, None], 0.0))
    return as_advantage(discounted_return(z, mask, gamma=gamma), mask)
