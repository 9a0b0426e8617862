"""Population-based training around a run's programs: who copies whom, and what is moved."""

import functools

import chex
import jax
import jax.numpy as jnp

from agentrl.learner.components import guard, steps
from agentrl.learner.components.population import NAME, Member, Selection
from agentrl.learner.state import TrainState
from agentrl.learner.totals import Totals, totals
from agentrl.selfplay import population as rules


def after_program(
    selection: Selection | None, state: TrainState, metrics: Totals
) -> tuple[TrainState, Totals]:
    """State and metrics of all members after a program, with a selection where one is due.

    Both as they are where seeds are no members (None).
    """
    if selection is None:
        return state, metrics
    member = state.carry[NAME]
    counted = member.fitness + metrics[selection.fitness]
    one = jnp.ones(counted.shape[0])
    told = {
        f"population/{path}": jnp.stack([value, one], axis=1)
        for path, value in member.options.items()
    }
    state = state.replace(carry=state.carry | {NAME: member.replace(fitness=counted)})
    due = state.update[0] % selection.every == 0
    itself = jnp.arange(counted.shape[0], dtype=jnp.int32)
    state, parent = jax.lax.cond(
        due, functools.partial(_selected, selection), lambda state: (state, itself), state
    )
    told["population/fitness"] = due * counted
    told["population/parent"] = due * jnp.stack([selection.first_seed + parent * 1.0, one], axis=1)
    return state, totals({**metrics, **told})


def _selected(selection: Selection, state: TrainState) -> tuple[TrainState, jax.Array]:
    """Selection and exploration: (state, parents i32[M])."""
    member = state.carry[NAME]
    total, weight = member.fitness[:, 0], member.fitness[:, 1]
    measured = jnp.where(weight > 0, total / jnp.where(weight > 0, weight, 1.0), jnp.nan)
    key, select_key, explore_key = jnp.moveaxis(
        jax.vmap(lambda k: jax.random.split(k, 3))(member.key), 1, 0
    )
    chosen = rules.select(measured, select_key, **selection.chosen)
    tuned = {}
    for i, (path, value) in enumerate(member.options.items()):
        keys = jax.vmap(lambda k, i=i: jax.random.fold_in(k, i))(explore_key)
        low, high = selection.ranges[path]
        value = value[chosen.parent]
        moved = rules.explore(value, keys, low=low, high=high, probability=selection.probability)
        tuned[path] = jnp.where(chosen.explores, moved, value)
    state = _inherited(state, chosen.parent)
    own = Member(tuned, jnp.zeros_like(member.fitness), key)
    return state.replace(carry=state.carry | {NAME: own}), chosen.parent


def _inherited(state: TrainState, parent: jax.Array) -> TrainState:
    """The state with what each member goes on from: all that is learnt, and no episodes or keys."""

    def follow(tree: chex.ArrayTree) -> chex.ArrayTree:
        return jax.tree.map(lambda x: x[parent], tree)

    carry = {
        name: value if name == steps.NAME else follow(value) for name, value in state.carry.items()
    }
    # A copy is as broken as what it copies; what it would collect again is its own.
    own = state.carry[guard.NAME]
    carry[guard.NAME] = own.replace(in_a_row=carry[guard.NAME].in_a_row)
    return state.replace(
        params=follow(state.params), opt_state=follow(state.opt_state), carry=carry
    )
