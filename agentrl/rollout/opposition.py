"""Who has the seats that the policy does not have."""

from typing import Any, NamedTuple

import chex
import jax.numpy as jnp

from agentrl.actors.pool import pool_actor
from agentrl.actors.scripted import opponent_named
from agentrl.actors.types import Actor
from agentrl.rollout.bound import Bound
from agentrl.rollout.seating import (
    Slots,
    check_side,
    make_slots,
    seat_all,
    seat_side,
    seat_teams,
    teams,
)
from agentrl.rollout.types import Seating
from envs.vector import World


class Opposition(NamedTuple):
    """Opponents of the policy, and which seats they have.

    name: "self", "pool" or a scripted actor's. side: the policy's side, or "none". slots: which
    episode meets which member of a pool. actor: the scripted actor.
    """

    name: str
    side: str
    slots: Slots | None
    actor: Actor | None

    def seating(self, world: World, state: Any, count: int) -> Seating:
        """The seats in `count` episodes at these states; state is read for sides only."""
        if self.name == "self":
            return seat_all(world.env, count)
        if self.side != "none":
            return seat_side(world, state, self.side)
        number = jnp.arange(count, dtype=jnp.int32) % (teams(world.env).max() + 1)
        return seat_teams(world.env, number)

    def actors(
        self, bound: Bound, world: World, params: chex.ArrayTree, members: chex.ArrayTree = None
    ) -> list[Actor]:
        """The policy with these parameters, and its opponent. members: of a pool, trained
        parameters [members, ...]."""
        own = bound.actor(world, params)
        if self.slots is None:
            return [own] if self.actor is None else [own, self.actor]
        other = pool_actor(
            lambda member: bound.actor(world, member),
            self.slots,
            members,
            params,
            bound.frozen,
            over_members=bound.over_members,
        )
        return [own, other]

    def reads_arrays(self, bound: Bound) -> bool:
        """Whether any of the actors looks at observations."""
        return bound.reads_arrays or (self.actor is not None and self.actor.reads_arrays)


def make_opposition(
    env: Any,
    env_params: Any,
    opponent: str,
    *,
    members: int | None = None,
    side: str = "none",
    num_groups: int = 1,
    group_size: int = 1,
) -> Opposition:
    """ValueError for opponents that the environment does not have seats for."""
    if env.num_agents == 1 and (opponent != "self" or members is not None):
        raise ValueError(
            f"rollout opponent={opponent!r}, members={members} with {env.name}, which has one "
            "agent: leave them out"
        )
    slots = make_slots(opponent, members, num_groups, group_size, int(teams(env).max()) + 1)
    check_side(env, side, opponent)
    scripted = opponent not in ("self", "pool")
    actor = opponent_named(opponent, env, env_params) if scripted else None
    return Opposition(opponent, side, slots, actor)
