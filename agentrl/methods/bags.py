"""Trajectories as bags of multiple-instance learning: what is known is a label of the whole bag.

The four models of Early et al. (2022), https://arxiv.org/abs/2205.15367, and what is fitted.
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import struct

from agentrl.learner.component import Setup
from agentrl.methods.by_turn import returns_of, stream_rows, to_turns
from agentrl.policies import decoder
from agentrl.rollout.types import Rollout
from agentrl.streams import Rows, Streams
from envs.environment import Environment

if TYPE_CHECKING:
    from agentrl.policies.language import LanguagePolicy

BagKind = Literal["instance", "embedding", "recurrent", "csc"]
Reads = Literal["action", "observation"]


class Bags(struct.PyTreeNode):
    """M bags of T turns. features: f32[M, T, F], 0 where nobody acted. mask: bool[M, T]. label:
    f32[M], of `bags_of`."""

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


class Features(Protocol):
    """What is known of each turn, as numbers."""

    @property
    def width(self) -> int:
        """F, how many there are."""

    def reader(self, params: chex.ArrayTree) -> chex.ArrayTree:
        """What of the policy's parameters is needed to read turns."""

    def of_turns(self, reader: chex.ArrayTree, streams: Streams, rows: Rows) -> jax.Array:
        """f32[N, T, F], 0 where nobody acted."""


class ArrayFeatures(NamedTuple):
    """Over arrays: the observation, codes as indicators, and with reads="action" indicators of the
    action."""

    env: Environment
    reads: Reads

    @property
    def width(self) -> int:
        """The size of an observation, and the number of actions."""
        seen = math.prod(self.env.observation_shape) * (self.env.num_codes or 1)
        return seen + (self.env.num_actions if self.reads == "action" else 0)

    def reader(self, params: chex.ArrayTree) -> chex.ArrayTree:
        """An empty tree: rows of arrays hold all that is read."""
        del params
        return ()

    def of_turns(self, reader: chex.ArrayTree, streams: Streams, rows: Rows) -> jax.Array:
        """f32[N, T, F], each turn's observation and, where it is read, its action."""
        del reader
        env, mask, rows = self.env, streams.mask, stream_rows(rows, streams)
        seen = rows.observation
        # What stands in padding may be no number.
        seen = jnp.where(mask.reshape(*mask.shape, *(1,) * (seen.ndim - 2)), seen, 0)
        if env.num_codes is not None:
            seen = jax.nn.one_hot(seen, env.num_codes)
        parts = [seen.reshape(*mask.shape, -1).astype(jnp.float32)]
        if self.reads == "action":
            parts.append(jax.nn.one_hot(jnp.where(mask, rows.tokens, 0), env.num_actions))
        return jnp.where(mask[..., None], jnp.concatenate(parts, axis=-1), 0.0)


class TextFeatures(NamedTuple):
    """In words: what the policy with the parameters `reader` makes of all that was said up to the
    end of the reply, its last layer there. microbatch: rows at a time."""

    policy: "LanguagePolicy"
    microbatch: int | None

    @property
    def width(self) -> int:
        """The width of the layer."""
        return self.policy.config.width

    def reader(self, params: chex.ArrayTree) -> chex.ArrayTree:
        """The policy's own parameters, which read the row of a turn."""
        return params

    def of_turns(self, reader: chex.ArrayTree, streams: Streams, rows: Rows) -> jax.Array:
        """The layer at the last token of each reply."""
        count, config, shape = self.microbatch, self.policy.config, streams.mask.shape
        following = jnp.pad(rows.loss_mask[:, 1:], ((0, 0), (0, 1)))
        same = jnp.pad(rows.turn[:, 1:] == rows.turn[:, :-1], ((0, 0), (0, 1)))
        last = rows.loss_mask & ~(following & same)

        def turns(part):
            own, last = part
            role = own.role if own.speaker is None else own.speaker
            state = decoder.hidden(reader, config, own.tokens, role=role)
            return to_turns(jnp.where(last[..., None], state, 0.0), own, shape)

        if count is None or rows.tokens.shape[0] % count:
            return turns((rows, last))
        parts = jax.tree.map(lambda x: x.reshape(-1, count, *x.shape[1:]), (rows, last))
        nothing = jnp.zeros((*shape, config.width))
        return jax.lax.scan(lambda sum_, part: (sum_ + turns(part), None), nothing, parts)[0]


def features_by(setup: Setup, reads: Reads) -> Features:
    """What is known of turns in a run."""
    if setup.policy.reads_text:
        return TextFeatures(setup.policy, setup.microbatch)
    env, _ = next(iter(setup.envs.values()))
    return ArrayFeatures(env, reads)


def bags_of(
    features: Features,
    reader: chex.ArrayTree,
    streams: Streams,
    rows: Rows,
    label: Callable[[Streams], jax.Array] = returns_of,
) -> Bags:
    """The bags of a batch, one per stream. label: of each of N streams, f32[N] or bool[N]."""
    known = features.of_turns(reader, streams, rows)
    return Bags(known, streams.mask, label(streams) * 1.0)


def explored(
    rollout: Rollout,
    features: Features,
    params: chex.ArrayTree,
    key: jax.Array,
    collections: int,
    label: Callable[[Streams], jax.Array] = returns_of,
) -> Bags:
    """The bags of so many collections that the policy plays, and reads, with these parameters."""
    key, first = jax.random.split(key)

    def collect(state, key):
        state, streams, rows, _ = rollout.collect(params, state, key)
        return state, bags_of(features, params, streams, rows, label)

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
