"""Trajectories as bags of multiple-instance learning: what is known is a label of the whole bag.

The four models of Early et al. (2022), https://arxiv.org/abs/2205.15367, and what is fitted.
"""

import math
from typing import Literal

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import struct

from agentrl.learner.component import Setup
from agentrl.methods.by_turn import returns_of, stream_rows, to_turns
from agentrl.policies import decoder
from agentrl.streams import Rows, Streams

BagKind = Literal["instance", "embedding", "recurrent", "csc"]
Reads = Literal["action", "observation"]


class Bags(struct.PyTreeNode):
    """M bags of T turns. features: f32[M, T, F], 0 where nobody acted. mask: bool[M, T]. label:
    f32[M], the return."""

    features: jax.Array
    mask: jax.Array
    label: jax.Array


def increments(value: jax.Array, mask: jax.Array) -> jax.Array:
    """v_t less the value of the turn before in which the agent acted, f32[N, T]; v_t at the first.

    They add up to the value of the last turn. value: f32[N, T]. mask: bool[N, T].
    """
    number = jnp.where(mask, jnp.arange(mask.shape[1]), -1)
    before = jnp.pad(jax.lax.cummax(number, axis=1)[:, :-1], ((0, 0), (1, 0)), constant_values=-1)
    earlier = jnp.take_along_axis(jnp.where(mask, value, 0.0), jnp.maximum(before, 0), axis=1)
    return jnp.where(mask, value - jnp.where(before >= 0, earlier, 0.0), 0.0)


def outcome_shares(label: jax.Array, present: jax.Array, *, bins: int = 10) -> jax.Array:
    """Probabilities f32[M] of bags with which all labels are drawn equally often.

    The range of the labels is cut into `bins` equal parts, of which those that have a bag are
    equally likely. label: f32[M]. present: bool[M], bags that can be drawn.
    """
    low = jnp.min(jnp.where(present, label, jnp.inf))
    high = jnp.max(jnp.where(present, label, -jnp.inf))
    width = jnp.where(high > low, high - low, 1.0) / bins
    part = jnp.clip(jnp.floor(jnp.where(present, label - low, 0.0) / width), 0, bins - 1)
    part = part.astype(jnp.int32)
    count = jnp.zeros(bins).at[part].add(present * 1.0)
    share = jnp.where(present, 1.0 / jnp.maximum(count[part], 1.0), 0.0)
    return share / jnp.maximum(jnp.sum(share), 1e-9)


class _Remember(nn.Module):
    """An LSTM's step, which turns that nobody acted in do not change."""

    memory: int

    @nn.compact
    def __call__(
        self, carry: tuple[jax.Array, jax.Array], turn: tuple[jax.Array, jax.Array]
    ) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        seen, there = turn
        new, _ = nn.OptimizedLSTMCell(self.memory)(carry, seen)
        carry = jax.tree.map(lambda x, y: jnp.where(there[:, None], x, y), new, carry)
        return carry, carry[1]


class BagModel(nn.Module):
    """The reward of each turn, whose sum over a bag is its label.

    With e_t an encoding of turn t, two layers of `hidden`, and h_t the output of an LSTM of
    `memory` units over e_1 ... e_t that starts from a learnt state, the reward of turn t is

      instance:   head(e_t), without memory;
      embedding:  head(h_t) - head(h_(t-1)), head(h_1) at the first: the label is head(h_T);
      recurrent:  head(h_t);
      csc:        head([e_t, h_t]), the concatenated skip connection.

    head is linear for "instance" and otherwise has a layer of `hidden`.
    """

    kind: BagKind
    hidden: int
    memory: int

    @nn.compact
    def __call__(self, features: jax.Array, mask: jax.Array) -> jax.Array:
        """Rewards f32[N, T] of features f32[N, T, F], 0 where mask bool[N, T] is False."""
        encoded = features
        for _ in range(2):
            encoded = nn.relu(nn.Dense(self.hidden)(encoded))
        if self.kind == "instance":
            return jnp.where(mask, nn.Dense(1)(encoded)[..., 0], 0.0)
        first = self.param("start", nn.initializers.zeros, (2, self.memory))
        shape = (mask.shape[0], self.memory)
        start = (jnp.broadcast_to(first[0], shape), jnp.broadcast_to(first[1], shape))
        over_time = nn.scan(
            _Remember, variable_broadcast="params", split_rngs={"params": False}, in_axes=1,
            out_axes=1,
        )  # fmt: skip
        _, state = over_time(self.memory)(start, (encoded, mask))
        joined = jnp.concatenate([encoded, state], axis=-1) if self.kind == "csc" else state
        told = nn.Dense(1)(nn.relu(nn.Dense(self.hidden)(joined)))[..., 0]
        if self.kind == "embedding":
            return increments(told, mask)
        return jnp.where(mask, told, 0.0)


def turn_features(
    setup: Setup, reader: chex.ArrayTree, streams: Streams, rows: Rows, reads: Reads
) -> jax.Array:
    """What is known of each turn, f32[N, T, F], 0 where nobody acted.

    Over arrays the observation, codes as indicators, and with reads="action" indicators of the
    action. In words what the policy with parameters `reader` makes of all that was said up to the
    end of the reply: its last layer there.
    """
    mask = streams.mask
    if setup.policy.reads_text:
        return _reading(setup, reader, rows, mask)
    env, _ = next(iter(setup.envs.values()))
    rows = stream_rows(rows, streams)
    seen = rows.observation
    # What stands in padding may be no number.
    seen = jnp.where(mask.reshape(*mask.shape, *(1,) * (seen.ndim - 2)), seen, 0)
    if env.num_codes is not None:
        seen = jax.nn.one_hot(seen, env.num_codes)
    parts = [seen.reshape(*mask.shape, -1).astype(jnp.float32)]
    if reads == "action":
        parts.append(jax.nn.one_hot(jnp.where(mask, rows.tokens, 0), env.num_actions))
    return jnp.where(mask[..., None], jnp.concatenate(parts, axis=-1), 0.0)


def _reading(setup: Setup, reader: chex.ArrayTree, rows: Rows, mask: jax.Array) -> jax.Array:
    policy, count = setup.policy, setup.microbatch
    following = jnp.pad(rows.loss_mask[:, 1:], ((0, 0), (0, 1)))
    same = jnp.pad(rows.turn[:, 1:] == rows.turn[:, :-1], ((0, 0), (0, 1)))
    last = rows.loss_mask & ~(following & same)

    def read(rows, last):
        role = rows.role if rows.speaker is None else rows.speaker
        state = decoder.hidden(reader, policy.config, rows.tokens, role=role)
        return jnp.where(last[..., None], state, 0.0)

    def turns(part):
        own, last = part
        return to_turns(read(own, last), own, mask.shape)

    if count is None or rows.tokens.shape[0] % count:
        return turns((rows, last))
    parts = jax.tree.map(lambda x: x.reshape(-1, count, *x.shape[1:]), (rows, last))
    nothing = jnp.zeros((*mask.shape, policy.config.width))
    return jax.lax.scan(lambda sum_, part: (sum_ + turns(part), None), nothing, parts)[0]


def feature_count(setup: Setup, reads: Reads) -> int:
    """F of `turn_features`."""
    if setup.policy.reads_text:
        return setup.policy.config.width
    env, _ = next(iter(setup.envs.values()))
    seen = math.prod(env.observation_shape) * (env.num_codes or 1)
    return seen + (env.num_actions if reads == "action" else 0)


def bags_of(
    setup: Setup, reader: chex.ArrayTree, streams: Streams, rows: Rows, reads: Reads
) -> Bags:
    """The bags of a batch, one per stream."""
    features = turn_features(setup, reader, streams, rows, reads)
    return Bags(features, streams.mask, returns_of(streams))


def explored(
    setup: Setup, params: chex.ArrayTree, key: jax.Array, collections: int, reads: Reads
) -> Bags:
    """The bags of so many collections that the policy plays, and reads, with these parameters."""
    rollout = setup.rollout
    key, first = jax.random.split(key)

    def collect(state, key):
        state, streams, rows, _ = rollout.collect(params, state, key)
        return state, bags_of(setup, params, streams, rows, reads)

    _, found = jax.lax.scan(collect, rollout.init(first), jax.random.split(key, collections))
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), found)


def bag_error(params: chex.ArrayTree, network: BagModel, bags: Bags) -> jax.Array:
    """Mean over bags of (sum of the rewards - label)^2, f32[]."""
    return progress_error(network.apply(params, bags.features, bags.mask), bags.label, bags.mask)


def progress_error(progress: jax.Array, outcome: jax.Array, mask: jax.Array) -> jax.Array:
    """Mean over streams of (sum_t c_t - R)^2, f32[].

    progress: f32[N, T]; outcome: f32[N]; mask: bool[N, T]. Streams without a turn do not count.
    """
    total = jnp.sum(jnp.where(mask, progress, 0.0), axis=1)
    present = jnp.any(mask, axis=1)
    error = jnp.where(present, jnp.square(total - outcome), 0.0)
    return jnp.sum(error) / jnp.maximum(jnp.sum(present), 1)
