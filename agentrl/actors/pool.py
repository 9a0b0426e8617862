"""Frozen members of an opponent pool as one actor."""

from collections.abc import Callable
from typing import Any

import chex
import jax

from agentrl.actors.types import Actor, Decision, View
from agentrl.policies.scoring import join, split


def pool_actor(
    make: Callable[[chex.ArrayTree], Actor],
    slots: Any,
    members: chex.ArrayTree,
    params: chex.ArrayTree,
    frozen: tuple[str, ...],
    *,
    over_members: Callable = jax.vmap,
) -> Actor:
    """Each slot's episodes are played by that slot's member.

    make: (parameters) -> the policy's actor. slots: `agentrl.rollout.seating.Slots`, which episodes
    belong to which. members: their trained parameters, [members, ...]; the `frozen` ones are the
    policy's, from `params`. over_members: `jax.vmap`, or a loop with one slot after the other,
    where each stops as its own replies end.
    """
    _, shared = split(params, frozen)
    actor = make(params)

    def init(batch, agents):
        def one(member):
            return make(join(member, shared)).init(batch // slots.members, agents)

        return slots.merge(over_members(one)(members))

    def act(members, memory, view: View, key):
        keys = jax.random.split(key, slots.members)

        def one(member, memory, view, key):
            own = make(join(member, shared))
            decision, memory = own.act(own.params, memory, view, key)
            return decision.action, memory

        action, memory = over_members(one)(members, slots.split(memory), slots.split(view), keys)
        return Decision(slots.merge(action)), slots.merge(memory)

    return actor._replace(init=init, act=act, params=members, value=None)
