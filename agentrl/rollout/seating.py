"""Seating: the policy itself, an opponent, or members of a pool in each seat.

With members of a pool, the episodes of a collection are divided into as many equal slots as members
are given, and each slot meets one of them: an episode has one opponent from its start to its end,
and a member's parameters are gathered once for all its episodes. Blocks of A groups are assigned to
slots round-robin; each group therefore meets one opponent, and the policy has every seat equally
often against each.
"""

from typing import TYPE_CHECKING, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from agentrl.actors.types import Actor, Decision, View
from agentrl.players.scripted import is_outside, opponent_named
from agentrl.policies.scoring import join, split
from agentrl.rollout.bound import BoundPolicy
from agentrl.rollout.types import Seating
from envs.agents import Agents
from envs.environment import AnyEnvironment, Environment, EnvParams
from envs.vector import World

if TYPE_CHECKING:
    from agentrl.players.asked import Asked


def teams(env: Agents) -> np.ndarray:
    """The team of each agent, i32[A], numbered from 0 (`sides_of_seats`)."""
    return np.array(env.sides_of_seats, np.int32)


def first_of_teams(env: Agents) -> np.ndarray:
    """The first agent of each team, i32[teams]: its results are the team's."""
    return np.unique(teams(env), return_index=True)[1].astype(np.int32)


def sides(world: World, state: chex.ArrayTree) -> jax.Array | None:
    """Index of the environment's side of each agent in states [B, ...], i32[B, A], or None."""
    return world.vmap(world.env.side_of)(state) if world.env.sides else None


def seat_teams(env: Agents, team: jax.Array, opponent: int = 1) -> Seating:
    """Actor 0 has the seats of team i32[B] of each episode, actor `opponent` the others."""
    own = teams(env) == team[:, None]
    return Seating(jnp.where(own, 0, opponent).astype(jnp.int32), own)


def seat_side(world: World, state: chex.ArrayTree, side: str, opponent: int = 1) -> Seating:
    """Actor 0 has the seats of one of the environment's sides, actor `opponent` the others."""
    of_agents = sides(world, state)
    assert of_agents is not None  # `side` is one of them
    own = of_agents == world.env.sides.index(side)
    return Seating(jnp.where(own, 0, opponent).astype(jnp.int32), own)


def seat_all(env: Agents, batch: int) -> Seating:
    """The seating in which actor 0 has all seats of all episodes and learns from each of them."""
    shape = (batch, env.num_agents)
    return Seating(jnp.zeros(shape, jnp.int32), jnp.ones(shape, bool))


def check_side(env: AnyEnvironment, side: str, opponent: str) -> None:
    """ValueError unless the game has that side, and an opponent has the others."""
    if side not in ("none", *env.sides):
        raise ValueError(
            f"side={side!r} with {env.name}, whose sides are {', '.join(env.sides) or 'none'}: "
            "choose one of them, or 'none'"
        )
    if side != "none" and opponent == "self":
        raise ValueError(f"side={side!r} with opponent='self', who has all seats: use 'none'")


class Slots(NamedTuple):
    """The episodes of a collection, B = blocks * members * width, divided into slots.

    width: episodes of A groups.
    """

    blocks: int
    members: int
    width: int

    def split(self, tree: chex.ArrayTree) -> chex.ArrayTree:
        """[B, ...] as [members, B / members, ...]."""

        def one(x):
            x = x.reshape(self.blocks, self.members, self.width, *x.shape[1:]).swapaxes(0, 1)
            return x.reshape(self.members, self.blocks * self.width, *x.shape[3:])

        return jax.tree.map(one, tree)

    def merge(self, tree: chex.ArrayTree) -> chex.ArrayTree:
        """[members, B / members, ...] as [B, ...]: the inverse."""

        def one(x):
            x = x.reshape(self.members, self.blocks, self.width, *x.shape[2:]).swapaxes(0, 1)
            return x.reshape(self.blocks * self.members * self.width, *x.shape[3:])

        return jax.tree.map(one, tree)

    def of_match(self) -> np.ndarray:
        """Index of the pool member that each episode is played against, i32[B], in [0, members)."""
        slot = np.repeat(np.arange(self.members, dtype=np.int32), self.width)
        return np.tile(slot, self.blocks)


def make_slots(
    opponent: str, members: int | None, num_groups: int, group_size: int, seats: int
) -> Slots | None:
    """The slots of a rollout's episodes, None without a pool. ValueError if they do not fit.

    members: by default 4. seats: teams, of which the policy has each equally often.
    """
    pooled, number = opponent == "pool", 4 if members is None else members
    if not pooled and members is not None:
        raise ValueError(
            f"rollout members={members} with opponent={opponent!r}, which is no pool: leave it "
            "out, or set opponent='pool'"
        )
    if pooled and (number < 1 or num_groups % (number * seats)):
        raise ValueError(
            f"rollout members={number}, num_groups={num_groups}: expected a multiple of members * "
            f"{seats} seats as num_groups, so that each member meets the policy in every seat "
            "equally often"
        )
    if not pooled:
        return None
    return Slots(num_groups // (number * seats), number, seats * group_size)


class _Members(NamedTuple):
    """The policy with frozen parameters: each slot's episodes are played by that slot's member.

    members: their trained parameters, [members, ...]. shared: all others, which are the policy's.
    """

    bound: BoundPolicy
    world: World
    slots: Slots
    shared: chex.ArrayTree
    members: chex.ArrayTree

    def actor(self, member: chex.ArrayTree) -> Actor:
        return self.bound.actor(self.world, join(member, self.shared))

    def init(self, batch, agents):
        size = batch // self.slots.members
        start = self.bound.over_members(lambda member: self.actor(member).init(size, agents))
        return self.slots.merge(start(self.members))

    def act(self, members, memory, view: View, key):
        def one(member, memory, view, key):
            own = self.actor(member)
            decision, memory = own.act(own.params, memory, view, key)
            return decision.action, memory

        slots = self.slots
        keys = jax.random.split(key, slots.members)
        given = members, slots.split(memory), slots.split(view), keys
        action, memory = self.bound.over_members(one)(*given)
        return Decision(slots.merge(action)), slots.merge(memory)


class Opposition(NamedTuple):
    """Opponents of the policy, and which seats they have.

    name: "self", "pool" or another player's. side: the policy's side, or "none". slots: which
    episode meets which member of a pool. actor: the other player. asked: what is behind it, if it
    is outside this process.
    """

    name: str
    side: str
    slots: Slots | None
    actor: Actor | None
    asked: "Asked | None" = None

    def seating(self, world: World, state: chex.ArrayTree, count: int) -> Seating:
        """The seats in `count` episodes at these states; state is read for sides only."""
        if self.name == "self":
            return seat_all(world.env, count)
        if self.side != "none":
            return seat_side(world, state, self.side)
        number = jnp.arange(count, dtype=jnp.int32) % (teams(world.env).max() + 1)
        return seat_teams(world.env, number)

    def actors(
        self,
        bound: BoundPolicy,
        world: World,
        params: chex.ArrayTree,
        members: chex.ArrayTree = None,
    ) -> list[Actor]:
        """The policy with these parameters, and its opponent. members: of a pool, trained
        parameters [members, ...]."""
        own = bound.actor(world, params)
        if self.slots is None:
            return [own] if self.actor is None else [own, self.actor]
        shared = split(params, bound.frozen)[1]
        pool = _Members(bound, world, self.slots, shared, members)
        return [own, own._replace(init=pool.init, act=pool.act, params=members, value=None)]

    def reads_arrays(self, bound: BoundPolicy) -> bool:
        """Whether any of the actors looks at observations."""
        return bound.reads_arrays or (self.actor is not None and self.actor.reads_arrays)


def make_opposition(
    env: Environment,
    env_params: EnvParams,
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
    if is_outside(opponent):
        from agentrl.players.asked import asked_actor  # few runs need them
        from agentrl.players.outside import outside

        player = outside(opponent, env)
        asked = asked_actor(player, World(env, env_params), must_play=True)
        return Opposition(opponent, side, slots, asked, player)
    scripted = opponent not in ("self", "pool")
    actor = opponent_named(opponent, env, env_params) if scripted else None
    return Opposition(opponent, side, slots, actor)
