"""Episodes that can be gone back to, and others that continue from their turns.

Letters: T turns, B episodes, M forks.
"""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from agentrl.actors.types import Actor, beside
from agentrl.methods.trees import point_of
from agentrl.rollout.seating import seat_all
from agentrl.rollout.types import Start, Trajectory, Turn
from agentrl.rollout.unroll import keep_turn, unroll
from envs.vector import World


class Played(NamedTuple):
    """Episodes, and what it takes to go back to each of their turns.

    points: [T, B, ...], states and what turns change of the memory, in front of each turn. past:
    [B, ...], the rest of the memory at the end (`Actor.split`).
    """

    trajectory: Trajectory
    points: Start
    past: chex.ArrayTree

    @property
    def lengths(self) -> jax.Array:
        """Turns of each episode, i32[B]."""
        return jnp.sum(self.trajectory.turns.running, axis=0, dtype=jnp.int32)

    def before(self, actor: Actor, turn: jax.Array, episode: jax.Array) -> Start:
        """Where these forks begin: in front of `turn` of `episode`, i32[M] each. One behind the
        episode's last turn does not run."""
        last = jnp.maximum(self.lengths[episode] - 1, 0)
        at = jnp.minimum(turn, last)
        point = jax.tree.map(lambda x: x[at, episode], self.points)
        past = jax.tree.map(lambda x: x[episode], self.past)
        memory = (actor.join(point.memory[0], past),)
        return Start(point.state, point.observation, memory, turn <= last)


def played(world: World, actor: Actor, start: Start, key: jax.Array, turns: int) -> Played:
    """Episodes of one agent of at most `turns` turns from their starts."""

    def keep(notes, turn):
        point = point_of(actor, turn.before)
        return notes, (keep_turn(None, turn)[1], point)

    seating = seat_all(world.env, jax.tree.leaves(start.state)[0].shape[0])
    found = unroll(world, [actor], seating, start, key, length=turns, early_exit=True, keep=keep)
    whole, points = found.turns
    past = actor.split(found.final.memory[0])[1]
    return Played(found._replace(turns=whole), points, past)


def behind(old: Turn, new: Turn, own: jax.Array) -> Turn:
    """Turns [T, M, ...]: the old ones before turn own[m], i32[M], then the new ones, which are
    numbered from there."""
    step = jnp.arange(jax.tree.leaves(old)[0].shape[0])[:, None] - own
    fork = jnp.arange(own.shape[0])

    def of(old, new):
        moved = new[jnp.maximum(step, 0), fork]
        return jnp.where(beside(step >= 0, moved), moved, old)

    return jax.tree.map(of, old, new)
