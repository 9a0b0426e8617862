"""DeepTravel: tasks whose whole group failed wait in a queue and are played again."""

from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
from flax import struct

from agentrl.checks import check_range
from agentrl.learner.component import Component, InitInputs, Inputs, Setup, UpdateResult


class Queue(struct.PyTreeNode):
    """task: u32[C, 2], data of the tasks' keys. age: i32[C], updates since each failed first, -1 of
    free places."""

    task: jax.Array
    age: jax.Array


def drawn_again(
    queue: Queue, fresh: jax.Array, slots: jax.Array | int, key: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The tasks of an update: (task u32[G, 2], place i32[G], -1 of fresh ones).

    The first groups, `slots` at most, get waiting tasks, different ones drawn with equal
    probability; the others keep `fresh` u32[G, 2].
    """
    waiting = queue.age >= 0
    order = jnp.argsort(jnp.where(waiting, jax.random.uniform(key, waiting.shape), 2.0))
    number = jnp.arange(fresh.shape[0])
    again = number < jnp.minimum(slots, jnp.sum(waiting))
    place = jnp.where(again, order[jnp.minimum(number, order.shape[0] - 1)], -1)
    task = jnp.where(again[:, None], queue.task[jnp.maximum(place, 0)], fresh)
    return task, place.astype(jnp.int32)


def after_playing(
    queue: Queue, task: jax.Array, place: jax.Array, solved: jax.Array, *, max_age: int
) -> tuple[Queue, jax.Array]:
    """(the queue after an update, number of tasks that left unsolved f32[]).

    A waiting task that was solved leaves, and so does one of `max_age` updates. Fresh tasks that
    failed enter in free places, and, where there are none, in those of the oldest.

    Args:
      task, place: see `drawn_again`. solved: bool[G], some stream of the group succeeded.
    """
    places = queue.age.shape[0]
    left = jnp.zeros(places, bool).at[jnp.where(solved & (place >= 0), place, places)].set(True)
    age = jnp.where(queue.age >= 0, queue.age + 1, -1)
    old = ~left & (age >= max_age)
    age = jnp.where(left | old, -1, age)
    # Free places first, then the oldest.
    order = jnp.argsort(jnp.where(age < 0, -1, max_age - age))
    enters = ~solved & (place < 0)
    rank = jnp.cumsum(enters) - 1
    to = jnp.where(enters & (rank < places), order[jnp.minimum(rank, places - 1)], places)
    pushed = jnp.sum((to < places) & (age[jnp.minimum(to, places - 1)] >= 0))
    lost = (jnp.sum(old) + pushed).astype(jnp.float32)
    return Queue(
        task=queue.task.at[to].set(task, mode="drop"),
        age=age.at[to].set(0, mode="drop"),
    ), lost


def tasks_by_key(key: jax.Array, count: int, given: jax.Array) -> tuple[jax.Array, Any]:
    """A task sampler: (keys of the tasks whose data are `given` u32[count, 2], None)."""
    del key, count
    return jax.random.wrap_key_data(given), None


class Hooks(NamedTuple):
    """The hooks of `failed_tasks`, with what they are made of. groups: G of an update, of which
    `most` get waiting tasks."""

    groups: int
    places: int
    most: int
    max_age: int

    def init(self, start: InitInputs) -> Queue:
        """A queue of `places` keys of tasks, all of them free."""
        del start
        empty = jnp.zeros((self.places, 2), jnp.uint32)
        return Queue(empty, jnp.full(self.places, -1, jnp.int32))

    def before(self, queue: Queue, params: chex.ArrayTree, key: jax.Array) -> Inputs:
        """Keys of the update's tasks: at most `most` from the queue, the others new."""
        del params
        fresh_key, draw_key = jax.random.split(key)
        fresh = jax.random.key_data(jax.random.split(fresh_key, self.groups))
        task, place = drawn_again(queue, fresh, self.most, draw_key)
        return Inputs({"tasks": task, "place": place})

    def after(self, queue: Queue, outcome: UpdateResult) -> tuple[Queue, dict[str, jax.Array]]:
        """The queue without what was solved or waited too long, with the groups that failed."""
        task, place = outcome.inputs["tasks"], outcome.inputs["place"]
        streams = outcome.streams
        success = jnp.any(streams.success & streams.mask, axis=1)
        solved = jnp.zeros(self.groups, bool).at[streams.group].max(success)
        queue, lost = after_playing(queue, task, place, solved, max_age=self.max_age)
        one, again = jnp.ones(()), place >= 0
        count = jnp.sum(again) * 1.0
        metrics = {
            "failed_tasks/waiting": jnp.stack([jnp.sum(queue.age >= 0) * 1.0, one]),
            "failed_tasks/share": jnp.stack([count, one * self.groups]),
            "failed_tasks/solved": jnp.stack([jnp.sum(solved & again) * 1.0, count]),
            "failed_tasks/lost": jnp.stack([lost, one]),
        }
        return queue, metrics


def failed_tasks(
    setup: Setup,
    *,
    places: int = 256,
    share: float = 0.25,
    max_age: int = 100,
) -> Component:
    """Supplies the rollout's input `tasks`: data of the key of each group's task, u32[G, 2].

    Of a group all of whose streams fail, the task enters a queue; `share` of the groups of each
    update, as far as tasks wait, are drawn from it and played anew by the current policy, so no
    importance weights are needed. A task leaves when a stream solves it, or when it is `max_age`
    updates old: tasks that cannot be solved would stay for ever otherwise.

    Metrics (Opponents, buffers, tasks):
      failed_tasks/waiting: Failed tasks that wait.
      failed_tasks/share: Failed tasks played again [share]; of the groups.
      failed_tasks/solved: Failed tasks solved [share]; of those played again.
      failed_tasks/lost: Failed tasks that left unsolved; too old or pushed out by newer ones, per
        update.

    Args:
      places: of the queue. share: in [0, 1]. max_age: at least 1.

    Raises:
      ValueError: a rollout that takes no tasks, or an option outside its range.

    References:
      DeepTravel (2025), https://arxiv.org/abs/2509.21842, from notes on the paper; no code read.
      There every k-th update draws from the queue; each update here, and the age limit is ours.
      `agentrl.methods.curriculum.curriculum` weighs tasks of a list softly,
      `agentrl.methods.success_replay.success_replay` replays episodes.
    """
    check_range("config.components.failed_tasks.places", places, 1)
    check_range("config.components.failed_tasks.share", share, 0.0, 1.0)
    check_range("config.components.failed_tasks.max_age", max_age, 1)
    if "tasks" not in setup.rollout.needs:
        raise ValueError(
            "component 'failed_tasks' supplies keys of tasks, which this rollout does not take: "
            "set its task sampler to agentrl.methods.failed_tasks.tasks_by_key"
        )
    groups = setup.rollout.units[0]
    hooks = Hooks(groups, places, round(share * groups), max_age)
    return Component(init=hooks.init, before=hooks.before, after=hooks.after, fills=("tasks",))
