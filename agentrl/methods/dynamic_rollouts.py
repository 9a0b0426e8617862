"""DART's dynamic rollouts: fewer attempts at tasks that are solved often, more tasks instead."""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from agentrl.advantages.grouping import joint_segments
from agentrl.checks import check_range
from agentrl.learner.component import (
    Component,
    Context,
    InitInputs,
    Inputs,
    Setup,
    UpdateResult,
)
from agentrl.methods.curriculum import Record, mean_success, unseen, updated
from agentrl.streams import Rows, Streams
from envs.fingerprint import fingerprint


def attempts(success: jax.Array, *, most: int, least: int, above: float) -> jax.Array:
    """Attempts at a task with this success, i32: ceil(most min(1, (1 - s) / (1 - above))).

    `most` up to a success of `above`, then fewer, and never below `least`.
    """
    share = jnp.minimum(1.0, (1.0 - success) / (1.0 - above))
    # Without the rounding of 1 - s, which would add an attempt.
    return jnp.maximum(jnp.ceil(most * share - 1e-4).astype(jnp.int32), least)


class Hooks(NamedTuple):
    """The hooks of `dynamic_rollouts`, with what they are made of. groups: of an update, each of
    `portion` attempts."""

    groups: int
    portion: int
    tasks: int
    most: int
    least: int
    above: float
    decay: float

    def init(self, start: InitInputs) -> Record:
        """The running success of each task, f32[tasks]: no task was seen yet."""
        del start
        return unseen(self.tasks)

    def before(self, record: Record, params: chex.ArrayTree, key: jax.Array) -> Inputs:
        """The task of each portion, i32[groups]: tasks in random order, each with the portions that
        its attempts take."""
        del params
        order = jax.random.permutation(key, self.tasks)
        success = jnp.where(record.seen > 0, record.success, 0.0)[order]
        wanted = attempts(success, most=self.most, least=self.least, above=self.above)
        portions = -(-wanted // self.portion)
        end = jnp.cumsum(portions)
        # Once all tasks have had theirs, it begins again.
        place = jnp.arange(self.groups) % end[-1]
        drawn = order[jnp.searchsorted(end, place, side="right")]
        return Inputs({"tasks": drawn.astype(jnp.int32)})

    def amend(
        self, context: Context, streams: Streams, rows: Rows
    ) -> tuple[Streams, Rows, dict[str, jax.Array]]:
        """Streams whose group is their task."""
        del context
        words = jax.vmap(fingerprint)(streams.first_state)
        everything = jnp.ones(words.shape[0], bool)
        return streams.replace(group=joint_segments(everything, *words.T)), rows, {}

    def after(self, record: Record, outcome: UpdateResult) -> tuple[Record, dict[str, jax.Array]]:
        """Running successes with those of the update's streams."""
        drawn = outcome.inputs["tasks"]
        number = jnp.repeat(drawn, outcome.streams.mask.shape[0] // self.groups)
        record = updated(record, outcome.streams, number, decay=self.decay)
        met = jnp.zeros(self.tasks, bool).at[drawn].set(True)
        number_of_tasks = jnp.stack([jnp.sum(met) * 1.0, jnp.ones(())])
        told = {"rollouts/tasks": number_of_tasks, "rollouts/success": mean_success(record)}
        return record, told


def dynamic_rollouts(
    setup: Setup,
    *,
    tasks: int = 64,
    most: int = 8,
    least: int = 2,
    above: float = 0.6,
    decay: float = 0.7,
) -> Component:
    """Supplies the rollout's input `tasks`, and puts all attempts at a task into one group.

    A batch has the same number of episodes in every update. Tasks are taken in a random order, each
    with its `attempts`, until the batch is full; so what a task that is solved often does not need
    goes to further tasks. Groups of the rollout (config.rollout.group_size, 2 or more) are the
    portions that are given out: attempts are rounded up to whole ones. The last task may get fewer
    than its own.

    Metrics (Opponents, buffers, tasks):
      rollouts/tasks: Tasks of an update [tasks].
      rollouts/success: Running success [share]; mean over the tasks seen.

    Args:
      tasks: how many there are; see `agentrl.methods.curriculum.tasks_by_number`.
      most, least, above: see `attempts`.
      decay: share of the running mean success that is kept, in [0, 1).

    Raises:
      ValueError: a rollout that takes no tasks, or an option outside its range.

    References:
      Li et al. (2025), DART, https://arxiv.org/abs/2509.23866: at most 8 attempts, fewer above a
      success of 0.6, from notes; the law in between is a reconstruction, and no code of it was
      published. Its limit of turns per task is `agentrl.methods.turn_limits`, and its success from
      a pool for groups that fail `agentrl.methods.success_replay`.
    """
    path = "config.components.dynamic_rollouts"
    check_range(f"{path}.tasks", tasks, 1)
    check_range(f"{path}.least", least, 1, most)
    check_range(f"{path}.above", above, 0.0, 1.0, below=True)
    check_range(f"{path}.decay", decay, 0.0, 1.0, below=True)
    if "tasks" not in setup.rollout.needs:
        raise ValueError(
            "component 'dynamic_rollouts' draws numbers of tasks, which this rollout does not "
            "take: set its task sampler to agentrl.methods.curriculum.tasks_by_number"
        )
    groups = setup.rollout.units[0]
    portion = setup.rollout.num_streams // (groups * setup.rollout.agents)
    hooks = Hooks(groups, portion, tasks, most, least, above, decay)
    return Component(
        init=hooks.init,
        before=hooks.before,
        amend=hooks.amend,
        after=hooks.after,
        fills=("tasks",),
    )
