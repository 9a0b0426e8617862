"""Tasks of a list that are played no more: solved (RAPO), or never solved (ARPO for GUIs)."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
from flax import struct

from agentrl.checks import check_range
from agentrl.learner.component import Component, InitInputs, Inputs, Setup, UpdateResult
from agentrl.methods.by_turn import solved


class Epoch(struct.PyTreeNode):
    """A pass over the tasks that are left, of K.

    order: i32[K], the tasks, those that are left first, in the order of this epoch. left: i32[],
    their number. place: i32[], those that were drawn in this epoch. epoch: i32[], its number.
    solved, tried: f32[K], streams of each task in this epoch that succeeded, and all.
    """

    order: jax.Array
    left: jax.Array
    place: jax.Array
    epoch: jax.Array
    solved: jax.Array
    tried: jax.Array


class Probe(struct.PyTreeNode):
    """Attempts of the first policy. solved: i32[K], successes by task. done: i32[], updates."""

    solved: jax.Array
    done: jax.Array


def drawn_in_order(epoch: Epoch, groups: int) -> jax.Array:
    """The tasks of the next G groups, i32[G]; where the epoch ends, it begins again."""
    place = (epoch.place + jnp.arange(groups)) % epoch.left
    return epoch.order[place].astype(jnp.int32)


def after_drawing(
    epoch: Epoch, number: jax.Array, success: jax.Array, groups: int, key: jax.Array, *, at: float
) -> Epoch:
    """The epoch after G groups; at its end the next one, without the tasks that were solved.

    A task leaves if the share of its streams of this epoch that succeeded is `at` or more; if all
    would, all stay.

    Args:
      number: i32[N], each stream's task. success: bool[N].
      key: of the next order.
    """
    tasks = epoch.order.shape[0]
    solved = epoch.solved.at[number].add(success * 1.0)
    tried = epoch.tried.at[number].add(1.0)
    place = epoch.place + groups
    over = place >= epoch.left
    there = jnp.zeros(tasks, bool).at[epoch.order].set(jnp.arange(tasks) < epoch.left)
    # Without the rounding of a share such as 9 / 10.
    stays = there & (solved < at * tried - 1e-4)
    stays = jnp.where(jnp.any(stays), stays, there)
    order = jnp.argsort(jnp.where(stays, jax.random.uniform(key, (tasks,)), 2.0))
    following = Epoch(
        order=order.astype(jnp.int32),
        left=jnp.sum(stays, dtype=jnp.int32),
        place=jnp.zeros((), jnp.int32),
        epoch=epoch.epoch + 1,
        solved=jnp.zeros(tasks),
        tried=jnp.zeros(tasks),
    )
    same = epoch.replace(place=place, solved=solved, tried=tried)
    return jax.tree.map(lambda new, old: jnp.where(over, new, old), following, same)


def _check_tasks(setup: Setup, component: str, tasks: int) -> int:
    """The groups of an update. ValueError unless the rollout takes numbers of tasks."""
    check_range(f"config.components.{component}.tasks", tasks, 1)
    if "tasks" not in setup.rollout.needs:
        raise ValueError(
            f"component {component!r} draws numbers of tasks, which this rollout does not take: "
            "set its task sampler to agentrl.methods.curriculum.tasks_by_number"
        )
    return setup.rollout.units[0]


class Epochs(NamedTuple):
    """The hooks of `pruned_tasks`, with what they are made of; groups: G of an update."""

    tasks: int
    groups: int
    at: float

    def init(self, start: InitInputs) -> Epoch:
        """The first epoch, of all tasks."""
        nothing = jnp.zeros((), jnp.int32)
        return Epoch(
            order=jax.random.permutation(start.key, jnp.arange(self.tasks, dtype=jnp.int32)),
            left=jnp.full((), self.tasks, jnp.int32),
            place=nothing,
            epoch=nothing,
            solved=jnp.zeros(self.tasks),
            tried=jnp.zeros(self.tasks),
        )

    def before(self, epoch: Epoch, params: chex.ArrayTree, key: jax.Array) -> Inputs:
        """The next tasks in the order of the epoch, i32[G], and the key of the next order."""
        del params
        # The key of the next order goes to `after` with the tasks.
        return Inputs({"tasks": drawn_in_order(epoch, self.groups), "order_key": key})

    def after(self, epoch: Epoch, outcome: UpdateResult) -> tuple[Epoch, dict[str, Any]]:
        """The epoch after these tasks, or the next one."""
        number = outcome.inputs["tasks"][outcome.streams.group]
        success, key = solved(outcome.streams), outcome.inputs["order_key"]
        epoch = after_drawing(epoch, number, success, self.groups, key, at=self.at)
        one = jnp.ones(())
        return epoch, {
            "pruned_tasks/left": jnp.stack([epoch.left * 1.0, one]),
            "pruned_tasks/epoch": jnp.stack([epoch.epoch * 1.0, one]),
        }


def pruned_tasks(setup: Setup, *, tasks: int = 64, at: float = 0.9) -> Component:
    """Supplies the rollout's input `tasks`: a list, epoch by epoch, without those solved by now.

    An epoch plays each task that is left once, in a random order; the last update of an epoch is
    filled up with its first tasks. At its end the tasks leave for good of whose attempts in this
    epoch a share of `at` or more succeeded: they have no more to teach, and groups without any
    spread of returns are rarer. If all would leave, all stay.

    Metrics (Opponents, buffers, tasks):
      pruned_tasks/left: Tasks left [tasks]; of the list, that are not solved yet.
      pruned_tasks/epoch: Epochs [epochs]; over the tasks that were left.

    Args:
      tasks: how many there are; see `agentrl.methods.curriculum.tasks_by_number`.
      at: the solve rate from which on a task leaves, in (0, 1].

    Raises:
      ValueError: a rollout that takes no tasks, or an option outside its range.

    References:
      Fathom-DeepResearch (2025), RAPO, https://arxiv.org/abs/2509.24107 (text of version 1 read).
      Its groups have 5 attempts, of which all have to succeed. With it go
      `advantages.live_group_scale` and `agentrl.methods.success_replay` with when="none".
    """
    groups = _check_tasks(setup, "pruned_tasks", tasks)
    check_range("config.components.pruned_tasks.at", at, 0.0, 1.0, above=True)

    hooks = Epochs(tasks, groups, at)
    return Component(init=hooks.init, before=hooks.before, after=hooks.after, fills=("tasks",))


class Probes(NamedTuple):
    """The hooks of `solvable_tasks`, with what they are made of.

    groups: G of an update. updates: in which all tasks are played in turn. weights: of the terms
    that wait, afterwards.
    """

    tasks: int
    groups: int
    updates: int
    weights: Mapping[str, float]

    def init(self, start: InitInputs) -> Probe:
        """Successes of each task, i32[tasks], and updates done: all 0."""
        del start
        return Probe(jnp.zeros(self.tasks, jnp.int32), jnp.zeros((), jnp.int32))

    def before(self, probe: Probe, params: chex.ArrayTree, key: jax.Array) -> Inputs:
        """The next tasks, and the weights of the terms."""
        del params
        in_turn = (probe.done * self.groups + jnp.arange(self.groups)) % self.tasks
        some = jnp.any(probe.solved > 0)
        chance = jnp.where((probe.solved > 0) | ~some, 0.0, -jnp.inf)
        drawn = jax.random.categorical(key, chance, shape=(self.groups,))
        waits = probe.done < self.updates
        numbers = {
            f"objective.{name}.weight": jnp.where(waits, 0.0, weight)
            for name, weight in self.weights.items()
        }
        number = jnp.where(waits, in_turn, drawn).astype(jnp.int32)
        return Inputs({"tasks": number}, numbers=numbers)

    def after(self, probe: Probe, outcome: UpdateResult) -> tuple[Probe, dict[str, Any]]:
        """Successes of each task with those of this update, while the policy waits."""
        waits = probe.done < self.updates
        number = outcome.inputs["tasks"][outcome.streams.group]
        success = solved(outcome.streams) & waits
        found = probe.solved.at[number].add(success.astype(jnp.int32))
        one = jnp.ones(())
        return Probe(found, probe.done + 1), {
            "solvable_tasks/kept": jnp.stack([jnp.sum(found > 0) * 1.0, one]),
            "policy_waits": jnp.stack([waits * 1.0, one]),
        }


def solvable_tasks(
    setup: Setup,
    *,
    tasks: int = 64,
    tries: int = 8,
    terms: tuple[str, ...] = ("policy",),
    weights: tuple[float, ...] = (1.0,),
) -> Component:
    """Supplies the rollout's input `tasks`: those of a list that the first policy solves at least
    once.

    In the first updates all tasks are played in turn, until each has had `tries` attempts (rounded
    up to whole groups and updates); meanwhile the `terms` of the objective have the weight 0, so
    that the policy stays as it is. From then on tasks are drawn evenly among those that were solved
    at least once; if none was, among all. All terms of source "rollout" have to be named.

    Metrics (Opponents, buffers, tasks):
      solvable_tasks/kept: Solvable tasks [tasks]; that the first policy solved.
      policy_waits: Policy waits [share]; updates in which the terms have no weight.

    Args:
      tasks: how many there are; see `agentrl.methods.curriculum.tasks_by_number`.
      tries: attempts at each task, at least 1.
      terms, weights: the terms that wait, and their weights afterwards.

    Raises:
      ValueError: a rollout that takes no tasks, another number of weights than of terms, or an
        option outside its range.

    References:
      ARPO for GUI agents, code dvlab-research/ARPO 7489ae3; the filter is in no code of it, and is
      written from the abstract: 128 tasks that the base policy can solve.
    """
    groups = _check_tasks(setup, "solvable_tasks", tasks)
    check_range("config.components.solvable_tasks.tries", tries, 1)
    if len(terms) != len(weights):
        raise ValueError(
            f"config.components.solvable_tasks: {len(terms)} terms {tuple(terms)} and "
            f"{len(weights)} weights; give one weight per term"
        )
    size = setup.rollout.num_streams // (groups * setup.rollout.agents)
    rounds = -(-tries // size)
    probes = -(-tasks * rounds // groups)

    hooks = Probes(tasks, groups, probes, dict(zip(terms, weights, strict=True)))
    return Component(init=hooks.init, before=hooks.before, after=hooks.after, fills=("tasks",))
