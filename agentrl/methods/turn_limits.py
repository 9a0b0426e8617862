"""DART's limit of turns per task: as many as the longest success on it has taken."""

import jax
import jax.numpy as jnp

from agentrl.checks import check_range
from agentrl.learner.component import Component, Inputs, Setup


def limits_of(longest: jax.Array, *, first: int, least: int) -> jax.Array:
    """The limit of each task, i32[K]: the turns of its longest success, at least `least`.

    longest: i32[K], turns of the longest success so far, 0 without one; such tasks have `first`.
    """
    return jnp.where(longest > 0, jnp.maximum(longest, least), first).astype(jnp.int32)


def turn_limits(setup: Setup, *, tasks: int = 64, first: int = 30, least: int = 10) -> Component:
    """Supplies the rollout's input `limits` i32[K]: turns that episodes of each task may take.

    See `limits_of`; limits above the rollout's own are its own. Failures then end where no success
    has ever come later, and cost less to collect. A limit is below `first`
    for good once the task has been solved, since no success can be longer than it. A limit that
    was reached is a truncation.

    Which tasks are played another component says, for example `dynamic_rollouts`; they are numbers
    below `tasks`, the same as there.

    Metric turn_limits/mean, over tasks that were solved.

    Metrics (Opponents, buffers, tasks):
      turn_limits/mean: Limit of turns [turns]; mean over tasks that were solved.

    Args:
      tasks: how many there are; see `agentrl.methods.curriculum.tasks_by_number`.
      first: of tasks that were not solved yet. least: of the others.

    Raises:
      ValueError: a rollout without limits (config.rollout.limited=True), or an option outside its
        range.

    References:
      Li et al. (2025), DART, https://arxiv.org/abs/2509.23866, from notes on the paper: the longest
      past success, 10 to 50 turns seen, 30 without one; no code of it was published.
    """
    path = "config.components.turn_limits"
    check_range(f"{path}.tasks", tasks, 1)
    check_range(f"{path}.first", first, 1)
    check_range(f"{path}.least", least, 1)
    if "limits" not in setup.rollout.needs:
        raise ValueError(
            "component 'turn_limits' limits turns by task, which this rollout does not take: set "
            "config.rollout.limited=True and its task sampler to "
            "agentrl.methods.curriculum.tasks_by_number"
        )
    groups = setup.rollout.units[0]

    def before(longest, params, key):
        return Inputs({"limits": limits_of(longest, first=first, least=least)})

    def after(longest, outcome):
        streams = outcome.streams
        number = jnp.repeat(outcome.inputs["tasks"], streams.mask.shape[0] // groups)
        solved = jnp.any(streams.success & streams.mask, axis=1)
        turns = jnp.where(solved, jnp.sum(streams.mask, axis=1, dtype=jnp.int32), 0)
        longest = longest.at[number].max(turns)
        known = longest > 0
        limits = limits_of(longest, first=first, least=least)
        total = jnp.sum(jnp.where(known, limits, 0)) * 1.0
        return longest, {"turn_limits/mean": jnp.stack([total, jnp.sum(known) * 1.0])}

    return Component(
        init=lambda start: jnp.zeros(tasks, jnp.int32),
        before=before,
        after=after,
        fills=("limits",),
    )
