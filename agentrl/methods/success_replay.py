"""Replay of own successes: a group that failed wholly gets an earlier success on the same task."""

from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
from flax import struct

from agentrl.checks import check_choice, check_range
from agentrl.learner.component import Component, Context, InitInputs, Setup, UpdateResult
from agentrl.learner.passes import log_probs
from agentrl.methods.by_turn import (
    PLACE,
    bare,
    collected,
    empty_like,
    put_if,
    returns_of,
    rows_by_stream,
)
from agentrl.policies.protocol import AnyPolicy
from agentrl.rollout.types import Rollout
from agentrl.streams import Rows, Streams

OldLogp = Literal["recomputed", "sampled"]
When = Literal["low", "none"]
Replaces = Literal["first", "random"]


class Buffer(struct.PyTreeNode):
    """Successes of C tasks, up to K of each: leaves [C, K, ...].

    task: u32[C, 2], fingerprint of what the first turn of the task is acted from. count: i32[C],
    successes stored since the task came in; the place of the next is count % K. since: i32[C],
    number of the write that the task came in with, 0 for an empty place. writes: i32[].
    streams: one stream per success, without `PLACE`. rows: its rows, [C, K, rows per stream, ...].
    """

    task: jax.Array
    count: jax.Array
    since: jax.Array
    writes: jax.Array
    streams: Streams
    rows: Rows


def put_stream(rows: Rows, place: jax.Array, own: Rows, when: jax.Array) -> Rows:
    """The rows with those of stream `place` i32[] replaced by `own` [R / N, ...], if `when`."""
    where = jnp.argsort(rows.stream != place, stable=True)[: own.tokens.shape[0]]
    own = own.replace(stream=jnp.full(where.shape, place, rows.stream.dtype))
    if rows.role is not None:
        own = own.replace(role=rows.role[where])
    return put_if(rows, where, own, when)


def found(tasks: jax.Array, since: jax.Array, task: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(place i32[] of a task among tasks u32[C, 2], whether it is there bool[]).

    since: i32[C], 0 where a place is empty, see `Buffer`.
    """
    same = jnp.all(tasks == task, axis=-1) & (since > 0)
    return jnp.argmax(same).astype(jnp.int32), jnp.any(same)


def stored(buffer: Buffer, task: jax.Array, streams: Streams, rows: Rows, success: jax.Array):
    """The buffer with one more success, if it is one and not among the task's stored ones.

    A task that is new takes the place of the one that came in first.
    """
    at, known = found(buffer.task, buffer.since, task)
    at = jnp.where(known, at, jnp.argmin(buffer.since))
    size = buffer.rows.tokens.shape[1]
    count = jnp.where(known, buffer.count[at], 0)
    filled = jnp.arange(size) < jnp.minimum(count, size)
    same = jnp.all(buffer.rows.tokens[at] == rows.tokens, axis=(1, 2))
    same &= jnp.all(buffer.rows.loss_mask[at] == rows.loss_mask, axis=(1, 2))
    writes = success & ~(known & jnp.any(filled & same))
    slot = count % size
    number = buffer.writes + writes
    fields = (buffer.task, buffer.count, buffer.since)
    new = (task, count + 1, jnp.where(known, buffer.since[at], number))
    task, count, since = put_if(fields, at, new, writes)
    kept = put_if((buffer.streams, buffer.rows), (at, slot), (streams, rows), writes)
    return Buffer(task, count, since, number, *kept)


def with_successes(
    buffer: Buffer,
    streams: Streams,
    rows: Rows,
    failed: jax.Array,
    member: jax.Array,
    key: jax.Array,
) -> tuple[Streams, Rows, jax.Array]:
    """(streams, rows, swapped bool[G]): a stream of each failed group whose task has successes is
    one of them. failed: bool[G], groups are neighbours. member: i32[G], which of its streams."""
    groups = failed.shape[0]
    size, per_task = streams.mask.shape[0] // groups, buffer.rows.tokens.shape[1]

    def swap(batch, group):
        (streams, rows), (number, key) = batch, group
        place = number * size + member[number]
        at, known = found(buffer.task, buffer.since, streams.anchor[place, 0])
        there = jnp.minimum(buffer.count[at], per_task)
        slot = jax.random.randint(key, (), 0, jnp.maximum(there, 1))
        swaps = failed[number] & known
        own, own_rows = jax.tree.map(lambda x: x[at, slot], (buffer.streams, buffer.rows))
        new = put_if(bare(streams), place, own, swaps)
        streams = new.replace(**{name: getattr(streams, name) for name in PLACE})
        return (streams, put_stream(rows, place, own_rows, swaps)), swaps

    numbers = jnp.arange(groups, dtype=jnp.int32), jax.random.split(key, groups)
    (streams, rows), swapped = jax.lax.scan(swap, (streams, rows), numbers)
    return streams, rows, swapped


def low(returns: jax.Array, highest_mean: float, highest_std: float) -> jax.Array:
    """Groups whose returns f32[G, M] have a mean and a deviation below these, bool[G]."""
    spread = jnp.std(returns, axis=1, ddof=min(1, returns.shape[1] - 1))
    return (jnp.mean(returns, axis=1) < highest_mean) & (spread < highest_std)


def empty(rollout: Rollout, policy: AnyPolicy, key: jax.Array, tasks: int, per_task: int) -> Buffer:
    """A buffer for what the rollout collects, without successes."""
    streams, rows = collected(rollout, policy, key)
    per_stream = rows.tokens.shape[0] // streams.mask.shape[0]
    return Buffer(
        task=jnp.zeros((tasks, 2), jnp.uint32),
        count=jnp.zeros(tasks, jnp.int32),
        since=jnp.zeros(tasks, jnp.int32),
        writes=jnp.zeros((), jnp.int32),
        streams=empty_like(streams, tasks, per_task),
        rows=empty_like(rows, tasks, per_task, per_stream),
    )


class Hooks(NamedTuple):
    """The hooks of `success_replay`, with what they are made of: its options, and G groups of
    `size` streams."""

    setup: Setup
    groups: int
    size: int
    tasks: int
    per_task: int
    highest_mean: float
    highest_std: float
    success: float
    old_logp: OldLogp
    when: When
    replaces: Replaces

    def init(self, start: InitInputs) -> Buffer:
        """A buffer with room for `per_task` successes of each task, none of which is there yet."""
        setup = self.setup
        return empty(setup.rollout, setup.policy, start.key, self.tasks, self.per_task)

    def amend(
        self, context: Context, streams: Streams, rows: Rows
    ) -> tuple[Streams, Rows, dict[str, jax.Array]]:
        """Groups that failed, with a success each."""
        key, size = context.key, self.size
        returns = returns_of(streams).reshape(self.groups, size)
        if self.when == "none":
            failed = ~jnp.any(returns > self.success, axis=1)
        else:
            failed = low(returns, self.highest_mean, self.highest_std)
        member = jnp.zeros(self.groups, jnp.int32)
        if self.replaces == "random":
            key, member_key = jax.random.split(key)
            member = jax.random.randint(member_key, (self.groups,), 0, size)
        streams, rows, swapped = with_successes(context.value, streams, rows, failed, member, key)
        if self.old_logp == "recomputed":
            replayed = ((jnp.arange(size) == member[:, None]) & swapped[:, None]).reshape(-1)
            setup = self.setup
            logp = log_probs(setup.policy, context.params, rows, setup.microbatch, setup.lengths)
            now = jnp.where(rows.loss_mask, logp, 0.0)
            new = jnp.where(replayed[rows.stream][:, None], now, rows.behaviour_logp)
            rows = rows.replace(behaviour_logp=new)
        share = jnp.array([jnp.sum(swapped), self.groups], jnp.float32)
        return streams, rows, {"replayed_groups": share}

    def after(self, buffer: Buffer, outcome: UpdateResult) -> tuple[Buffer, dict[str, jax.Array]]:
        """The buffer with the update's own successes."""
        streams = outcome.streams
        own = rows_by_stream(outcome.rows, self.groups * self.size)
        good = returns_of(streams) > self.success

        def add(buffer, one):
            streams, rows, good = one
            return stored(buffer, streams.anchor[0], bare(streams), rows, good), None

        new, _ = jax.lax.scan(add, buffer, (streams, own, good))
        kept = jnp.sum(jnp.minimum(new.count, self.per_task) * (new.since > 0)) * 1.0
        return new, {"stored_successes": jnp.stack([kept, jnp.ones(())])}


def success_replay(
    setup: Setup,
    *,
    tasks: int = 256,
    per_task: int = 8,
    highest_mean: float = 0.2,
    highest_std: float = 0.05,
    success: float = 0.1,
    old_logp: OldLogp = "recomputed",
    when: When = "low",
    replaces: Replaces = "first",
) -> Component:
    """Swaps a stored success into each group that failed: one of its streams is replaced.

    A group failed if its returns have a mean below `highest_mean` and a deviation below
    `highest_std` (when="low", ARPO's rule), or if none of its streams is a success (when="none",
    RAPO's, which keeps the latest success of a task: per_task=1, success=0.5, replaces="random");
    the success is drawn evenly among those stored of its task. A task is known by
    the anchor of its first turn, so tasks that look alike at the start are one, and it has to come
    again for anything to happen. Then the update's own successes are stored, the oldest going
    first; one that is stored already is not stored again.

    Metrics (Opponents, buffers, tasks):
      replayed_groups: Groups with a replay [share]; that got a stored success.
      stored_successes: Stored successes [episodes]; in the buffer.

    Args:
      tasks: places for tasks. per_task: successes per task.
      highest_mean, highest_std: of when="low".
      success: an episode with a higher return is one.
      old_logp: "recomputed": the ratio of a replayed row is to the policy before this update, 1 at
        its first step, which is no off-policy correction (as released). "sampled": to the policy
        that sampled the episode.
      when, replaces: see above; the "first" stream of the group, or a "random" one.

    Raises:
      ValueError: a rollout without groups or anchors, several roles, or an option outside its
        range.

    References:
      ARPO for GUI agents, code dvlab-research/ARPO 7489ae3 (read); its filter of tasks is component
      `agentrl.methods.task_lists.solvable_tasks`. Fathom-DeepResearch (2025), RAPO,
      https://arxiv.org/abs/2509.24107 (text of version 1 read).
    """
    rollout = setup.rollout
    path = "config.components.success_replay"
    for name, value in (("tasks", tasks), ("per_task", per_task)):
        check_range(f"{path}.{name}", value, 1)
    check_range(f"{path}.highest_std", highest_std, 0.0)
    for name, value, known in (
        ("old_logp", old_logp, OldLogp), ("when", when, When), ("replaces", replaces, Replaces),
    ):  # fmt: skip
        check_choice(f"{path}.{name}", value, get_args(known))
    if not {"group", "anchor"} <= rollout.provides or rollout.roles > 1:
        raise ValueError(
            "component 'success_replay' needs groups of whole episodes of one agent, and anchors: "
            "use rollout 'episodes' and an environment of one agent"
        )
    groups = rollout.units[0]
    hooks = Hooks(
        setup, groups, rollout.num_streams // groups, tasks, per_task, highest_mean, highest_std,
        success, old_logp, when, replaces,
    )  # fmt: skip
    return Component(init=hooks.init, amend=hooks.amend, after=hooks.after)
