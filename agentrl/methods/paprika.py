"""PAPRIKA: groups of tasks as arms of a bandit, drawn by how much can be learnt from their tasks.

Letters: K groups of tasks, G tasks of a collection, N streams.
"""

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

import chex
import jax
import jax.numpy as jnp
from flax import struct

from agentrl.checks import check_choice, check_range
from agentrl.learner.component import Component, InitInputs, Inputs, Setup, UpdateResult
from agentrl.methods.by_turn import returns_of, solved
from envs.environment import EnvParams

Rule = Literal["ucb", "uniform"]
Score = Literal["success", "return"]


class Arms(struct.PyTreeNode):
    """total: f32[K], sum of the learning potentials of each group's tasks. count: f32[K], of how
    many tasks; both are discounted alike."""

    total: jax.Array
    count: jax.Array


def learning_potential(
    score: jax.Array, group: jax.Array, present: jax.Array, groups: int
) -> jax.Array:
    """nu = std / mean of the scores of each task's attempts, f32[G]; 0 unless the mean is above 0.

    A task that nobody solves has no pair to learn from, and one that everybody solves has no
    spread. Scores are to be at least 0: the quotient means nothing otherwise.

    Args:
      score: f32[N]. group: i32[N] in [0, G). present: bool[N], attempts that count. groups: G.
    """
    there = present * 1.0
    count = jnp.maximum(jax.ops.segment_sum(there, group, num_segments=groups), 1.0)
    score = jnp.where(present, score, 0.0)
    mean = jax.ops.segment_sum(score, group, num_segments=groups) / count
    apart = jnp.where(present, jnp.square(score - mean[group]), 0.0)
    variance = jax.ops.segment_sum(apart, group, num_segments=groups) / count
    safe = jnp.where(mean > 0, mean, 1.0)
    return jnp.where(mean > 0, jnp.sqrt(variance) / safe, 0.0)


def upper_bounds(arms: Arms, *, exploration: float = math.sqrt(2)) -> jax.Array:
    """Mean potential + exploration sqrt(ln n / n_k) of each arm, f32[K], n = sum of n_k; infinite
    for arms that were never drawn."""
    drawn, count = arms.count > 0, jnp.where(arms.count > 0, arms.count, 1.0)
    tried = jnp.maximum(jnp.sum(arms.count), 1.0)
    bound = arms.total / count + jnp.sqrt(exploration**2 * jnp.log(tried) / count)
    return jnp.where(drawn, bound, jnp.inf)


def arms_by_bound(arms: Arms, draws: int) -> jax.Array:
    """The groups of `draws` tasks, i32[draws], each of the largest bound; the first of equals.

    A collection is drawn at once: until its outcomes arrive, a drawn task counts with the mean that
    its group has, so that its bound shrinks and others have their turn.
    """

    def draw(arms, _):
        mean = arms.total / jnp.where(arms.count > 0, arms.count, 1.0)
        arm = jnp.argmax(upper_bounds(arms)).astype(jnp.int32)
        chosen = jnp.arange(mean.shape[0]) == arm
        return Arms(arms.total + jnp.where(chosen, mean, 0.0), arms.count + chosen), arm

    return jax.lax.scan(draw, arms, length=draws)[1]


def updated(arms: Arms, arm: jax.Array, potential: jax.Array, *, keep: float = 1.0) -> Arms:
    """After tasks of the groups arm i32[G] turned out to have this potential, f32[G].

    keep: in (0, 1], the factor of all earlier ones, once a call: the policy changes, and with it
    what can be learnt from a group.
    """
    check_range("paprika keep", keep, 0.0, 1.0, above=True)
    count = jnp.zeros_like(arms.count).at[arm].add(1.0)
    total = jnp.zeros_like(arms.total).at[arm].add(potential)
    return Arms(keep * arms.total + total, keep * arms.count + count)


class Hooks(NamedTuple):
    """The hooks of `paprika`, with what they are made of. table: values of parameters in the K =
    `arms` groups of tasks. groups: G, tasks of a collection."""

    env_params: EnvParams
    table: Mapping[str, tuple[float, ...]]
    arms: int
    groups: int
    tasks: int
    rule: Rule
    by: Score
    keep: float

    def init(self, start: InitInputs) -> Arms:
        """Sums of learning potentials and counts of tasks, f32[arms] each, all 0."""
        del start
        return Arms(jnp.zeros(self.arms), jnp.zeros(self.arms))

    def before(self, arms: Arms, params: chex.ArrayTree, key: jax.Array) -> Inputs:
        """The next tasks, each with its parameters of the environment."""
        del params
        groups, like = self.groups, self.env_params
        arm_key, number_key = jax.random.split(key)
        if self.rule == "ucb":
            arm = arms_by_bound(arms, groups)
        else:
            arm = jax.random.randint(arm_key, (groups,), 0, self.arms)
        own = jax.tree.map(lambda x: jnp.broadcast_to(jnp.asarray(x), (groups,)), like)
        types = {name: jnp.asarray(getattr(like, name)).dtype for name in self.table}
        own = own.replace(
            **{name: jnp.asarray(x, types[name])[arm] for name, x in self.table.items()}
        )
        number = jax.random.randint(number_key, (groups,), 0, self.tasks)
        return Inputs({"tasks": {"number": number, "params": own}, "arm": arm})

    def after(self, arms: Arms, outcome: UpdateResult) -> tuple[Arms, dict[str, jax.Array]]:
        """The arms with the learning potential of the update's groups."""
        streams, arm = outcome.streams, outcome.inputs["arm"]
        score = solved(streams) * 1.0 if self.by == "success" else returns_of(streams)
        present = jnp.any(streams.mask, axis=1)
        potential = learning_potential(score, streams.group, present, self.groups)
        metrics = {}
        for k in range(self.arms):
            mine, attempts = arm == k, (arm[streams.group] == k) & present
            drawn = jnp.sum(mine) * 1.0
            metrics[f"task_group/share/{k}"] = jnp.stack([drawn, jnp.float32(self.groups)])
            gained = jnp.sum(jnp.where(attempts, score, 0.0))
            metrics[f"task_group/success/{k}"] = jnp.stack([gained, jnp.sum(attempts) * 1.0])
            spread = jnp.sum(jnp.where(mine, potential, 0.0))
            metrics[f"task_group/potential/{k}"] = jnp.stack([spread, drawn])
        return updated(arms, arm, potential, keep=self.keep), metrics


def paprika(
    setup: Setup,
    *,
    parameters: tuple[str, ...] = (),
    values: tuple[tuple[float, ...], ...] = (),
    tasks: int = 256,
    rule: Rule = "ucb",
    by: Score = "success",
    keep: float = 1.0,
) -> Component:
    """Supplies the rollout's input `tasks`: the task of each of its groups, with its own parameters
    of the environment, for the sampler `agentrl.methods.routing.assigned_tasks`.

    Groups of tasks differ in some of the environment's parameters; group k has the k-th value of
    each. A group is drawn by `rule`, then one of its tasks evenly, and all attempts at it tell its
    `learning_potential`. PAPRIKA's data and loss are `agentrl.methods.pairs.pairs(rejected=
    "lower")`, the best attempt and any lower one, and `losses.rpo`.

    Metrics, of each group k: task_group/share/k, of the tasks drawn; task_group/success/k, or the
    mean return, of its attempts; task_group/potential/k, mean learning potential of its tasks.

    Metrics (Opponents, buffers, tasks):
      task_group/share/{group}: Tasks of group {group} [share]; of those drawn.
      task_group/success/{group}: Success in group {group} [share]; of attempts, or their mean
        return.
      task_group/potential/{group}: Learning potential of group {group}; standard deviation over
        mean of a task's outcomes.

    Args:
      parameters: names of the environment's parameters; (): one group of all tasks.
      values: for each of them, its values in the groups.
      tasks: of each group, numbered as in `agentrl.methods.curriculum.tasks_by_number`.
      rule: "ucb", by the largest `upper_bounds`; "uniform", each group equally likely.
      by: what is compared, "success" (0 or 1) or "return", which is to be at least 0.
      keep: see `updated`; PAPRIKA: 1.

    Raises:
      ValueError: a rollout that takes no tasks, several environments, parameters that the
        environment does not have, or an option outside its range.

    Deviations: PAPRIKA's groups are different games. It draws one task, plays it and updates the
    bandit; here the tasks of a collection are drawn together (`arms_by_bound`) and the policy
    learns after each collection, not after all of them.

    References:
      Tajwar et al. (2025), PAPRIKA, https://arxiv.org/abs/2502.17543 (its losses are in code
      tajwarfahim/paprika 8470461, the curriculum from notes).
    """
    path = "config.components.paprika"
    check_choice(f"{path}.rule", rule, get_args(Rule))
    check_choice(f"{path}.by", by, get_args(Score))
    check_range(f"{path}.tasks", tasks, 1)
    check_range(f"{path}.keep", keep, 0.0, 1.0, above=True)
    env_params, count = _checked(setup, parameters, values)
    groups = setup.rollout.units[0]
    table = dict(zip(parameters, values, strict=True))
    hooks = Hooks(env_params, table, count, groups, tasks, rule, by, keep)
    return Component(init=hooks.init, before=hooks.before, after=hooks.after, fills=("tasks",))


def _checked(setup: Setup, parameters, values):
    """(the environment's parameters, number of groups of tasks). ValueError as in `paprika`."""
    if "tasks" not in setup.rollout.needs:
        raise ValueError(
            "component 'paprika' gives tasks with parameters of their own, which this rollout does "
            "not take: set its task sampler to agentrl.methods.routing.assigned_tasks"
        )
    if len(setup.envs) > 1:
        raise ValueError(f"component 'paprika' with {', '.join(setup.envs)}: expected one of them")
    ((name, (_, env_params)),) = setup.envs.items()
    for parameter in parameters:
        if not hasattr(env_params, str(parameter)):
            raise ValueError(
                f"config.components.paprika.parameters={parameters}: {name} has no {parameter!r}"
            )
    sizes = {len(row) for row in values if isinstance(row, tuple)}
    if len(values) != len(parameters) or len(sizes) > 1 or 0 in sizes or None in values:
        raise ValueError(
            f"config.components.paprika.values={values}: expected a value per group for each of "
            f"{', '.join(map(str, parameters)) or 'no parameters'}"
        )
    return env_params, max(sizes, default=1)
