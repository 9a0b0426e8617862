"""Population-based training: seeds are members that copy each other and tune options."""

import functools
from collections.abc import Mapping
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
from flax import struct

from agentrl.learner.component import Component, Setup, Start
from agentrl.selfplay import population as rules

NAME = "population"


@struct.dataclass
class Member:
    """options: f32[] by path in the config, for example "optimizer.learning_rate". fitness: f32[2],
    total and weight since the last selection. key: for its selections.
    """

    options: dict[str, jax.Array]
    fitness: jax.Array
    key: jax.Array


def population(
    setup: Setup,
    ranges: Mapping[str, tuple[float, float]],
    components: Mapping[str, Component],
    *,
    every: int = 0,
    fitness: str = "success_rate",
    top: float = 0.3,
    bottom: float = 0.3,
    absolute_gap: float = 1e-6,
    relative_gap: float = 0.1,
    probability: float = 0.15,
) -> Component:
    """The component of population-based training, see `agentrl.selfplay.population`.

    Members start from values of the tuned options spread over their ranges on a logarithmic scale,
    and stay within. The config's own value must be in the range, and is used in a warm start. A
    member that copies another continues from its parameters, optimizer, carry and options, in its
    own episodes, with its own keys.

    Metrics: population/{path}, an option as it was in these updates; where a selection took place,
    population/fitness and population/parent, the seed that a member copies.

    Args:
      ranges: (low, high) by path of each option that members tune.
      components: all others of the run, which define what a copy inherits.
      every: updates between two selections; 0: no population.
      fitness: the metric for selection, the higher the better; the true objective, not a shaped
        reward. It is averaged over the updates since the selection before.
      top, bottom: shares of the members that are copied, and that copy.
      absolute_gap, relative_gap: by which a member has to be ahead to be copied; the second in
        parts of its own fitness, which is for metrics whose zero is the worst.
      probability: with which an option of a member that is not among the best is moved.
    """

    def init(start: Start) -> Member:
        # A stream of keys of its own: the members train as the seeds would.
        def own(seed):
            return jax.random.split(jax.random.fold_in(jax.random.key(seed), 0x9B7))

        # The start values of all members are drawn together, with the first one's key.
        spread_keys = jax.random.split(own(setup.seed)[1], max(len(ranges), 1))
        tuned = {
            path: rules.spread(key, setup.num_seeds, *bounds)[start.seed - setup.seed]
            for key, (path, bounds) in zip(spread_keys, ranges.items(), strict=False)
        }
        return Member(tuned, jnp.zeros(2), own(start.seed)[0])

    plan = _Plan(
        ranges=ranges,
        components=components,
        every=every,
        fitness=fitness,
        selection={
            "top": top,
            "bottom": bottom,
            "absolute_gap": absolute_gap,
            "relative_gap": relative_gap,
        },
        probability=probability,
        first_seed=setup.seed,
    )
    return Component(
        init=init, options=lambda member: member.options, across=functools.partial(_across, plan)
    )


class _Plan(NamedTuple):
    """The options of `population`; selection: those of `selfplay.population.select`."""

    ranges: Mapping[str, tuple[float, float]]
    components: Mapping[str, Component]
    every: int
    fitness: str
    selection: Mapping[str, float]
    probability: float
    first_seed: int


def _across(plan: _Plan, state, metrics):
    """All members after a program of updates, with a selection where one is due."""
    member = state.carry[NAME]
    counted = member.fitness + metrics[plan.fitness]
    one = jnp.ones(counted.shape[0])
    told = {
        f"population/{path}": jnp.stack([value, one], axis=1)
        for path, value in member.options.items()
    }
    state = state.replace(carry=state.carry | {NAME: member.replace(fitness=counted)})
    due = state.update[0] % plan.every == 0
    itself = jnp.arange(counted.shape[0], dtype=jnp.int32)
    state, parent = jax.lax.cond(
        due, functools.partial(_selected, plan), lambda state: (state, itself), state
    )
    told["population/fitness"] = due * counted
    told["population/parent"] = due * jnp.stack([plan.first_seed + parent * 1.0, one], axis=1)
    return state, metrics | told


def _selected(plan: _Plan, state):
    """Selection and exploration: (state, parents i32[M])."""
    member = state.carry[NAME]
    total, weight = member.fitness[:, 0], member.fitness[:, 1]
    measured = jnp.where(weight > 0, total / jnp.where(weight > 0, weight, 1.0), jnp.nan)
    key, select_key, explore_key = jnp.moveaxis(
        jax.vmap(lambda k: jax.random.split(k, 3))(member.key), 1, 0
    )
    chosen = rules.select(measured, select_key, **plan.selection)
    tuned = {}
    for i, (path, value) in enumerate(member.options.items()):
        keys = jax.vmap(lambda k, i=i: jax.random.fold_in(k, i))(explore_key)
        low, high = plan.ranges[path]
        value = value[chosen.parent]
        moved = rules.explore(value, keys, low=low, high=high, probability=plan.probability)
        tuned[path] = jnp.where(chosen.explores, moved, value)
    state = _inherited(plan, state, chosen.parent)
    own = Member(tuned, jnp.zeros_like(member.fitness), key)
    return state.replace(carry=state.carry | {NAME: own}), chosen.parent


def _inherited(plan: _Plan, state, parent: jax.Array):
    """The state with what each member goes on from."""

    def follow(tree: chex.ArrayTree) -> chex.ArrayTree:
        return jax.tree.map(lambda x: x[parent], tree)

    carry = {}
    for name, value in state.carry.items():
        inherits = plan.components[name].inherits if name in plan.components else None
        parents = follow(value)
        carry[name] = parents if inherits is None else inherits(value, parents)
    return state.replace(
        params=follow(state.params), opt_state=follow(state.opt_state), carry=carry
    )
