"""SPEAR: good episodes of earlier updates are imitated, more and more, while a bonus fades."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import struct

from agentrl.checks import check_range
from agentrl.learner.component import (
    Batches,
    Component,
    Context,
    InitInputs,
    Setup,
    Source,
    UpdateResult,
)
from agentrl.methods.by_turn import (
    bare,
    collected,
    empty_like,
    returns_of,
    rows_by_stream,
    stream_sums,
)
from agentrl.policies.protocol import AnyPolicy
from agentrl.rollout.types import Rollout
from agentrl.streams import PerTurn, Rows, Shared, Streams


class Buffer(struct.PyTreeNode):
    """Up to M good streams, and statistics of the last H groups.

    streams, rows: one stream each [M, ...], and its rows [M, rows per stream, ...]. since: i32[M],
    update in which it came; -1 for an empty place. mean, std: f32[H], of the returns of a group;
    NaN for none yet. groups, updates: i32[], groups and updates seen.
    """

    streams: Streams
    rows: Rows
    since: jax.Array
    mean: jax.Array
    std: jax.Array
    groups: jax.Array
    updates: jax.Array


def recalibrated(
    reward: jax.Array, mask: jax.Array, baseline: jax.Array, scale: jax.Array | float = 1.0
) -> jax.Array:
    """(R - baseline) / scale in each turn of a stream, f32[N, T]; 0 where mask is False.

    reward: f32[N, T], of which R is the sum per stream. baseline, scale: f32[], the medians of
    recent groups' means and deviations.
    """
    total = jnp.sum(jnp.where(mask, reward, 0.0), axis=1, keepdims=True)
    return jnp.where(mask, (total - baseline) / scale, 0.0)


def replay_weight(step: jax.Array, until: int) -> jax.Array:
    """Half a cosine from 0 to 1 over the first `until` updates, f32[]."""
    return 0.5 * (1.0 - jnp.cos(jnp.pi * jnp.minimum(step / until, 1.0)))


def call_weight(step: jax.Array, until: int) -> jax.Array:
    """Half a cosine from 1 to 0 over the first `until` updates, f32[]."""
    return 1.0 - replay_weight(step, until)


def _median(values: jax.Array, default: float) -> jax.Array:
    """The median of the numbers that are not NaN, f32[]."""
    middle = jnp.nanmedian(values)
    return jnp.where(jnp.isnan(middle), default, middle)


def put(buffer: Buffer, streams: Streams, rows: Rows, good: jax.Array) -> Buffer:
    """The buffer with the good streams, in empty places and then in those of the oldest.

    streams: [N, ...]; rows: [N, rows per stream, ...]; good: bool[N]. Of more good streams than
    there are places, the first are stored.
    """
    size = buffer.since.shape[0]
    order = jnp.argsort(buffer.since, stable=True)
    number = jnp.cumsum(good) - 1
    fits = good & (number < size)
    place = jnp.where(fits, order[jnp.minimum(number, size - 1)], size)  # dropped

    def store(all_, new):
        return all_.at[place].set(new, mode="drop")

    return buffer.replace(
        streams=jax.tree.map(store, buffer.streams, bare(streams)),
        rows=jax.tree.map(store, buffer.rows, rows),
        since=buffer.since.at[place].set(buffer.updates, mode="drop"),
    )


def empty(rollout: Rollout, policy: AnyPolicy, key: jax.Array, size: int, groups: int) -> Buffer:
    """A buffer with `size` places for streams of the rollout, and statistics of no group."""
    streams, rows = collected(rollout, policy, key)
    per_stream = rows.tokens.shape[0] // streams.mask.shape[0]
    return Buffer(
        streams=empty_like(streams, size),
        rows=empty_like(rows, size, per_stream),
        since=jnp.full(size, -1, jnp.int32),
        mean=jnp.full(groups, jnp.nan, jnp.float32),
        std=jnp.full(groups, jnp.nan, jnp.float32),
        groups=jnp.zeros((), jnp.int32),
        updates=jnp.zeros((), jnp.int32),
    )


def advantage_now(buffer: Buffer, streams: Streams, divide_by_std: bool) -> jax.Array:
    """The recalibrated advantage of streams, f32[N, T]."""
    scale = _median(buffer.std, 1.0) + 1e-6 if divide_by_std else 1.0
    return recalibrated(streams.reward, streams.mask, _median(buffer.mean, 0.0), scale)


def replayed(buffer: Buffer, least: int, oldest: int) -> jax.Array:
    """Streams of the buffer that this update learns from, bool[M]."""
    above = jnp.any(advantage_now(buffer, buffer.streams, False) > 0, axis=1)
    young = (buffer.since >= 0) & (buffer.updates - buffer.since <= oldest)
    return above & young & (jnp.sum(above & young) >= least)


def replay(buffer: Buffer, used: jax.Array) -> tuple[Streams, Rows]:
    """The buffer as a source of which the streams bool[M] are learnt from."""
    rows = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), buffer.rows)
    size, per_stream = buffer.rows.tokens.shape[:2]
    stream = jnp.repeat(jnp.arange(size, dtype=jnp.int32), per_stream)
    mask = rows.loss_mask & used[stream][:, None]
    streams = buffer.streams.replace(mask=buffer.streams.mask & used[:, None])
    return streams, rows.replace(stream=stream, loss_mask=mask)


def with_groups(buffer: Buffer, returns: jax.Array) -> Buffer:
    """The buffer with the statistics of more groups, after one more update. returns: f32[G, n]."""
    count, places = returns.shape[0], buffer.mean.shape[0]
    at = (buffer.groups + jnp.arange(count)) % places
    return buffer.replace(
        mean=buffer.mean.at[at].set(jnp.mean(returns, axis=1)),
        std=buffer.std.at[at].set(jnp.std(returns, axis=1, ddof=min(1, returns.shape[1] - 1))),
        groups=(buffer.groups + count) % places,
        updates=buffer.updates + 1,
    )


class Hooks(NamedTuple):
    """The hooks of `self_imitation`, with what they are made of."""

    rollout: Rollout
    policy: AnyPolicy
    size: int
    least: int
    oldest: int
    replay_until: int
    calls_until: int
    groups: int
    divide_by_std: bool

    def init(self, start: InitInputs) -> Buffer:
        """A buffer with room for `size` streams, and statistics of no group."""
        return empty(self.rollout, self.policy, start.key, self.size, self.groups)

    def make(self, context: Context, sources: Batches) -> tuple[Streams, Rows]:
        """The buffer's streams, if they are replayed in this update."""
        del sources
        used = replayed(context.value, self.least, self.oldest)
        return replay(context.value, used)

    def annotate(
        self, context: Context, streams: Streams, rows: Rows
    ) -> dict[str, PerTurn | Shared]:
        """Recalibrated advantages, and the weights of this update."""
        del rows
        buffer = context.value
        return {
            "recalibrated_advantage": PerTurn(advantage_now(buffer, streams, self.divide_by_std)),
            "replay_weight": Shared(replay_weight(buffer.updates, self.replay_until)),
            "call_weight": Shared(call_weight(buffer.updates, self.calls_until)),
        }

    def after(self, buffer: Buffer, outcome: UpdateResult) -> tuple[Buffer, dict[str, jax.Array]]:
        """The buffer, emptied if it was replayed, with the update's good streams."""
        streams, used = outcome.streams, replayed(buffer, self.least, self.oldest)
        buffer = buffer.replace(since=jnp.where(jnp.any(used), -1, buffer.since))
        good = stream_sums(outcome.credit.advantage, streams, outcome.rows) > 0
        buffer = put(buffer, streams, rows_by_stream(outcome.rows, good.shape[0]), good)
        buffer = with_groups(buffer, returns_of(streams).reshape(self.rollout.units[0], -1))
        count = jnp.stack([jnp.sum(used) * 1.0, jnp.ones(())])
        return buffer, {"replayed_streams": count}


def self_imitation(
    setup: Setup,
    *,
    size: int = 64,
    least: int = 32,
    oldest: int = 10,
    replay_until: int = 100,
    calls_until: int = 100,
    groups: int = 10240,
    divide_by_std: bool = False,
) -> Component:
    """Source "self_imitation": own streams with a positive advantage, replayed with another one.

    A stored stream's advantage is recalibrated, R - b with b the median of the means of the last
    groups, and it is replayed where that is positive: what was good need not be good now. Once
    `least` stored streams are, all of them are the source of one update, and the buffer is emptied;
    in other updates the source has nothing to learn from.

    Supplies `recalibrated_advantage` f32[N, T] and `replay_weight` f32[] for
    `losses.self_imitation`, and `call_weight` f32[] for reward term `call_bonus`.
    Metric replayed_streams: streams of the source in an update.

    Metrics (Opponents, buffers, tasks):
      replayed_streams: Replayed episodes [streams]; in an update.

    Args:
      size: places for streams. least: stored streams above the baseline that start a replay.
      oldest: updates after which a stored stream is no longer used.
      replay_until: update at which the replay has its whole weight. calls_until: update at which
        the bonus for calls has faded.
      groups: number of past groups of which the baseline is the median.
      divide_by_std: divide by the median of the groups' deviations, too.

    Raises:
      ValueError: a rollout without groups, several roles, or an option outside its range.

    References:
      SPEAR (2025), https://arxiv.org/abs/2509.22601; code (read). There the buffer's rows are
      steps of the optimiser of their own after those on the batch, with Clip-Cov; here they are a
      term of the same loss, clipped as PPO does, so that an update remains one program. The base
      recipe's filters are `advantages.filtering`'s.
    """
    rollout = setup.rollout
    options = {"size": size, "oldest": oldest, "groups": groups}
    options |= {"replay_until": replay_until, "calls_until": calls_until}
    for name, value in options.items():
        check_range(f"config.components.self_imitation.{name}", value, 1)
    check_range("config.components.self_imitation.least (at most size)", least, 1, size)
    if "group" not in rollout.provides or rollout.roles > 1:
        raise ValueError(
            "component 'self_imitation' needs groups of whole episodes of one agent: use rollout "
            "'episodes' and an environment of one agent"
        )
    hooks = Hooks(
        rollout, setup.policy, size, least, oldest, replay_until, calls_until, groups, divide_by_std
    )
    return Component(
        init=hooks.init,
        source=Source(hooks.make),
        annotate=hooks.annotate,
        after=hooks.after,
        fills=("recalibrated_advantage", "replay_weight", "call_weight"),
    )
