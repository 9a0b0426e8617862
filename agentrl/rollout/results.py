"""Whole episodes among any actors, of which only the results are kept."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

import envs
from agentrl.actors.types import Actor, select
from agentrl.rollout.pack import of_agents
from agentrl.rollout.types import Seating, Turn
from agentrl.rollout.unroll import fresh, unroll
from envs.vector import World


class Results(NamedTuple):
    """Results of B episodes of A agents.

    episode_return: f32[B, A]. moves: i32[B, A], turns acted. illegal: i32[B, A], of them illegal.
    success: bool[B, A], which agents won by the rules. offender: i32[B], whose illegal action ended
    the game, -1 for none. truncated: bool[B], a limit of steps ended it. course: u32[B, 2],
    fingerprint of the sequence of states: equal for games with the same course.
    """

    episode_return: jax.Array
    moves: jax.Array
    illegal: jax.Array
    success: jax.Array
    offender: jax.Array
    truncated: jax.Array
    course: jax.Array


def play_results(
    actors: Sequence[Actor], world: World, seating: jax.Array, keys: jax.Array, key: jax.Array
) -> Results:
    """Plays B episodes from their start to their end or the environment's limit.

    seating: i32[B, A], index of the actor in each seat. keys: [B], the tasks; key: randomness of
    actions and environment.
    """
    start = fresh(world, keys)
    if not any(actor.reads_arrays for actor in actors):
        start = start._replace(observation=None)
    shape = seating.shape
    nothing = Results(
        episode_return=jnp.zeros(shape),
        moves=jnp.zeros(shape, jnp.int32),
        illegal=jnp.zeros(shape, jnp.int32),
        success=jnp.zeros(shape, bool),
        offender=jnp.full(shape[0], -1, jnp.int32),
        truncated=jnp.zeros(shape[0], bool),
        course=jax.vmap(envs.fingerprint)(start.state),
    )
    trajectory = unroll(
        world,
        actors,
        Seating(seating, jnp.ones(shape, bool)),
        start,
        key,
        # No turns are kept, so the limit may be traced.
        length=0,
        limit=world.params.max_steps_in_episode,
        early_exit=True,
        keep=_add_turn,
        notes=nothing,
    )
    return trajectory.notes


def _add_turn(so_far: Results, turn: Turn) -> tuple[Results, None]:
    outcome = turn.outcome
    moved = of_agents(turn.agent, turn.acting, outcome.reward.shape[1])
    assert turn.after is not None  # turns are kept after this
    course = jax.vmap(lambda *states: envs.fingerprint(states))(so_far.course, turn.after.state)
    following = Results(
        episode_return=so_far.episode_return + outcome.reward,
        moves=so_far.moves + moved,
        illegal=so_far.illegal + (moved & ~outcome.valid),
        success=so_far.success | outcome.success,
        offender=jnp.maximum(so_far.offender, outcome.offender),
        truncated=so_far.truncated | outcome.truncated,
        course=select(turn.running, course, so_far.course),
    )
    return following, None
