"""The guard against non-finite updates: counts them and keeps the inputs of the last one."""

from collections.abc import Mapping
from typing import Any

import chex
import jax
import jax.numpy as jnp
from flax import struct

from agentrl.learner.component import Component, Setup
from agentrl.learner.state import TrainState, new_if

NAME = "guard"


class Guard(struct.PyTreeNode):
    """in_a_row, total: i32[], rejected updates. rollout, key: of the state that the last rejected
    update started from; its batch can be collected again, for parameters have not changed since.
    """

    in_a_row: jax.Array
    total: jax.Array
    rollout: chex.ArrayTree
    key: jax.Array


def guard(setup: Setup) -> Component:
    """Counts non-finite updates, and keeps the state from which the last one collected its batch.

    Every run has it: after `config.max_rejected_updates` in a row the run stops and saves that
    batch.
    """

    def init(start):
        # A placeholder of the right structure, with buffers of its own.
        rollout = setup.rollout.init(start.key)
        return Guard(jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32), rollout, start.key)

    def after(value: Guard, outcome):
        rejected, before = ~outcome.finite, outcome.before

        start = (before.rollout, before.key)
        rollout, key = new_if(rejected, start, (value.rollout, value.key))
        value = Guard(
            in_a_row=jnp.where(rejected, value.in_a_row + 1, 0),
            total=value.total + rejected,
            rollout=rollout,
            key=key,
        )
        return value, {}

    return Component(
        init=init,
        after=after,
        counts_rejected=True,
        in_warm_start=True,
    )


def rejected_in_a_row(carry: Mapping[str, Any]) -> jax.Array:
    """Number of consecutive non-finite updates up to now."""
    return carry[NAME].in_a_row


def rejected_start(state: TrainState) -> TrainState:
    """The state from which the last rejected update collected."""
    value = state.carry[NAME]
    return state.replace(rollout=value.rollout, key=value.key)


def placed(
    carry: Mapping[str, Any], replicated: jax.sharding.Sharding, rollout: chex.ArrayTree
) -> dict[str, Any]:
    """Sharding of the guard's value on a mesh: its rollout state as the run's own."""
    everywhere = jax.tree.map(lambda _: replicated, carry[NAME])
    return {NAME: everywhere.replace(rollout=rollout)}
