"""Rewards in units of the running deviation of returns (PPO-max)."""

import jax
import jax.numpy as jnp
from flax import struct

from agentrl.learner.component import Component, Setup
from agentrl.methods.by_turn import returns_of
from agentrl.streams import PerTurn, Streams


class Moments(struct.PyTreeNode):
    """Count, mean and sum of squared distances from the mean of all returns so far, f32[] each."""

    count: jax.Array
    mean: jax.Array
    square: jax.Array

    @property
    def std(self) -> jax.Array:
        """The deviation (n - 1), f32[]; 1 while it is 0."""
        variance = self.square / jnp.maximum(self.count - 1, 1)
        return jnp.sqrt(jnp.where(variance > 0, variance, 1.0))


def merged(value: Moments, returns: jax.Array, present: jax.Array) -> Moments:
    """The moments with those of further returns f32[N], where present bool[N]."""
    n = jnp.sum(present) * 1.0
    mean = jnp.sum(jnp.where(present, returns, 0.0)) / jnp.maximum(n, 1)
    square = jnp.sum(jnp.where(present, jnp.square(returns - mean), 0.0))
    count = value.count + n
    apart = mean - value.mean
    share = n / jnp.maximum(count, 1)
    return Moments(
        count, value.mean + apart * share, value.square + square + apart**2 * value.count * share
    )


def counted(value: Moments, streams: Streams) -> Moments:
    """The moments with the returns of these streams."""
    return merged(value, returns_of(streams), jnp.any(streams.mask, axis=1))


def reward_scaling(setup: Setup) -> Component:
    """Supplies `reward_scale` f32[N, T] for reward term `scaled_reward`: 1 over the deviation of
    the returns of this and all earlier updates.

    The mean is not subtracted: in groups it would change nothing, and to a critic it is a constant.
    Returns are of the environment's own rewards.

    Metrics (Credit):
      reward_std: Deviation of returns; by which rewards are divided.

    References:
      Zheng et al. (2023), Secrets of RLHF in large language models part I: PPO,
      https://arxiv.org/abs/2307.04964; code OpenLMLab/MOSS-RLHF 4865d82 (read). Its released script
      has on: this, and the clips of value (`clipped_value_loss`) and policy.
    """

    def annotate(context, streams, rows):
        scale = 1.0 / counted(context.value, streams).std
        return {"reward_scale": PerTurn(jnp.broadcast_to(scale, streams.mask.shape))}

    def after(value, outcome):
        value = counted(value, outcome.streams)
        return value, {"reward_std": jnp.stack([value.std, jnp.ones(())])}

    return Component(
        init=lambda start: Moments(*jnp.zeros(3)),
        restarts=True,
        annotate=annotate,
        after=after,
        fills=("reward_scale",),
    )
