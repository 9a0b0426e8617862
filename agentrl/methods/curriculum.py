"""A curriculum: tasks of a list are drawn by how often the policy has solved them."""

from typing import Any, Literal, NamedTuple, get_args

import chex
import jax
import jax.numpy as jnp
from flax import struct

from agentrl.checks import check_choice, check_range
from agentrl.learner.component import Component, InitInputs, Inputs, Setup, UpdateResult
from agentrl.streams import Streams

Weighting = Literal["learnability", "failure"]


class Record(struct.PyTreeNode):
    """success: f32[K], running mean success of each task. seen: i32[K], collections that it was
    drawn in."""

    success: jax.Array
    seen: jax.Array


def task_weights(
    success: jax.Array, seen: jax.Array, *, weighting: Weighting = "learnability", floor: float
) -> jax.Array:
    """The probability with which each task is drawn, f32[K].

    "learnability" is in proportion to p (1 - p), the variance of a success, "failure" to 1 - p;
    tasks that were never drawn count as the best of them. A share `floor` is spread evenly, so that
    no task is lost; all of it where no task has a weight.
    """
    check_choice("weighting", weighting, get_args(Weighting))
    check_range("floor", floor, 0.0, 1.0)
    best = 0.25 if weighting == "learnability" else 1.0
    weight = success * (1 - success) if weighting == "learnability" else 1 - success
    weight = jnp.where(seen > 0, weight, best)
    total = jnp.sum(weight)
    even = jnp.full(weight.shape, 1 / weight.shape[0])
    return jnp.where(total > 0, floor * even + (1 - floor) * weight / total, even)


def updated(record: Record, streams: Streams, number: jax.Array, *, decay: float) -> Record:
    """The record after a collection. number: i32[N], each stream's task.

    Success of a task is the mean over its streams; the running mean keeps `decay` of what it was.
    """
    tasks = record.seen.shape[0]
    acted = jnp.any(streams.mask, axis=1) * 1.0
    solved = jnp.any(streams.success & streams.mask, axis=1) * 1.0
    count = jax.ops.segment_sum(acted, number, num_segments=tasks)
    good = jax.ops.segment_sum(solved, number, num_segments=tasks)
    now = good / jnp.maximum(count, 1)
    moved = jnp.where(record.seen > 0, decay * record.success + (1 - decay) * now, now)
    return Record(
        success=jnp.where(count > 0, moved, record.success),
        seen=record.seen + (count > 0),
    )


def unseen(tasks: int) -> Record:
    """The record of so many tasks of which none was drawn."""
    return Record(jnp.zeros(tasks), jnp.zeros(tasks, jnp.int32))


def mean_success(record: Record) -> jax.Array:
    """Total and weight f32[2] of the running successes of the tasks that were drawn."""
    known = record.seen > 0
    return jnp.stack([jnp.sum(jnp.where(known, record.success, 0.0)), jnp.sum(known) * 1.0])


def tasks_by_number(key: jax.Array, count: int, given: jax.Array) -> tuple[jax.Array, Any]:
    """A task sampler: (keys of the tasks with the numbers `given` i32[count], None).

    Task n is the same in all updates, of all seeds and runs.
    """
    del key, count
    return jax.vmap(lambda n: jax.random.fold_in(jax.random.key(0), n))(given), None


class Hooks(NamedTuple):
    """The hooks of `curriculum`, with what they are made of; groups: G of an update."""

    groups: int
    tasks: int
    weighting: Weighting
    floor: float
    decay: float

    def init(self, start: InitInputs) -> Record:
        """The running success of each task, f32[K]: no task was seen yet."""
        del start
        return unseen(self.tasks)

    def weights(self, record: Record) -> jax.Array:
        """`task_weights` now, f32[K]."""
        return task_weights(record.success, record.seen, weighting=self.weighting, floor=self.floor)

    def before(self, record: Record, params: chex.ArrayTree, key: jax.Array) -> Inputs:
        """Numbers of the update's tasks, i32[G], drawn by their weights."""
        del params
        chance = jnp.log(self.weights(record))
        drawn = jax.random.categorical(key, chance, shape=(self.groups,))
        return Inputs({"tasks": drawn.astype(jnp.int32)})

    def after(self, record: Record, outcome: UpdateResult) -> tuple[Record, dict[str, jax.Array]]:
        """Running successes with those of the update's streams."""
        number = outcome.inputs["tasks"][outcome.streams.group]
        record = updated(record, outcome.streams, number, decay=self.decay)
        chance = self.weights(record)
        number = jnp.exp(-jnp.sum(jnp.where(chance > 0, chance * jnp.log(chance), 0.0)))
        one = jnp.ones(())
        metrics = {
            "curriculum/success": mean_success(record),
            "curriculum/seen": jnp.stack([jnp.mean(record.seen > 0), one]),
            "curriculum/effective_tasks": jnp.stack([number, one]),
        }
        return record, metrics


def curriculum(
    setup: Setup,
    *,
    tasks: int = 64,
    weighting: Weighting = "learnability",
    floor: float = 0.1,
    decay: float = 0.7,
) -> Component:
    """Supplies the rollout's input `tasks`: the number of each group's task, i32[G].

    Success of a group is the mean over its streams; of a task drawn several times, over its groups.
    The running mean keeps `decay` of what it was, and begins at the first value.

    Metrics (Opponents, buffers, tasks):
      curriculum/success: Success of drawn tasks [share]; mean over tasks.
      curriculum/seen: Tasks seen [share]; drawn at least once.
      curriculum/effective_tasks: Effective number of tasks [tasks]; exp of the entropy of the
        distribution.

    Args:
      tasks: how many there are.
      weighting, floor: see `task_weights`.
      decay: in [0, 1).

    Raises:
      ValueError: a rollout that takes no tasks, or an option outside its range.

    References:
      Learnability p (1 - p): Rutherford et al. (2024), No regrets, https://arxiv.org/abs/2408.15099
      (recalled, not read). A soft form of ActiveVLN's resampling of groups without any success
      (code arvillion/ActiveVLN 63984f3 read), which collects them and throws them away.
    """
    check_range("config.components.curriculum.tasks", tasks, 1)
    check_range("config.components.curriculum.decay", decay, 0.0, 1.0, below=True)
    check_choice("config.components.curriculum.weighting", weighting, get_args(Weighting))
    check_range("config.components.curriculum.floor", floor, 0.0, 1.0)
    if "tasks" not in setup.rollout.needs:
        raise ValueError(
            "component 'curriculum' draws numbers of tasks, which this rollout does not take: set "
            "its task sampler to agentrl.methods.curriculum.tasks_by_number"
        )
    hooks = Hooks(setup.rollout.units[0], tasks, weighting, floor, decay)
    return Component(init=hooks.init, before=hooks.before, after=hooks.after, fills=("tasks",))
