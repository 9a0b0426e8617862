"""Whole episodes on a fixed set of tasks, with any actor."""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

import envs
import envs.vector
from agentrl.actors.types import Actor
from agentrl.players.scripted import random_actor
from agentrl.rollout.results import play_results
from agentrl.rollout.seating import first_of_teams, seat_side, seat_teams
from agentrl.rollout.starts import task_keys as task_keys
from agentrl.rollout.types import Outcomes as Outcomes
from envs.environment import AnyEnvironment, Environment, EnvParams
from envs.vector import World


def kinds(env: Environment, env_params: EnvParams, keys: jax.Array) -> jax.Array:
    """Index into the environment's `kinds` of each key's task, i32[E]; -1 for none."""

    @jax.jit
    def of(keys):
        state = envs.vector.draw(env, env_params, keys).state
        return jax.vmap(env.kind_of, in_axes=(0, None))(state, env_params)

    return of(keys)


def in_turn(
    play_some: Callable[[jax.Array, jax.Array], Outcomes],
    keys: jax.Array,
    key: jax.Array,
    at_once: int | None,
) -> Outcomes:
    """Outcomes of `play_some(task keys, key)`, called with `at_once` tasks after another.

    None: with all of them, and with `key` itself. ValueError unless at_once divides the tasks.
    """
    if at_once is None or at_once == keys.shape[0]:
        return play_some(keys, key)
    if at_once < 1 or keys.shape[0] % at_once:
        raise ValueError(
            f"config.evaluation.at_once={at_once} does not divide {keys.shape[0]} episodes: change "
            "one of the two (--episodes in launchers.evaluate)"
        )
    some = keys.reshape(-1, at_once)
    outcomes = jax.lax.map(lambda x: play_some(*x), (some, jax.random.split(key, some.shape[0])))
    return jax.tree.map(lambda x: x.reshape(-1), outcomes)


def of_teams(outcomes: Outcomes, firsts: Sequence[int] | np.ndarray) -> Outcomes:
    """Outcomes [E] of the agents `firsts` in turn, one per episode, of those of all agents [E, A].

    firsts: the first agent of each team.
    """
    return _of_agents(outcomes, jnp.asarray(firsts)[_teams(outcomes.length.shape[0], len(firsts))])


def _teams(episodes: int, teams: int) -> jax.Array:
    """The team whose results are an episode's, i32[E]."""
    return jnp.arange(episodes, dtype=jnp.int32) % teams


def _of_agents(outcomes: Outcomes, own: jax.Array) -> Outcomes:
    return jax.tree.map(lambda x: jnp.take_along_axis(x, own[:, None], axis=1)[:, 0], outcomes)


def opponent_of(env: AnyEnvironment) -> Actor | None:
    """Random legal play, the opponent in evaluation.

    None for cooperative games, and for environments in Python, which have no random play.
    """
    against = env.num_agents > 1 and not getattr(env, "cooperative", True)
    return random_actor(env) if against else None


def play(
    actor: Actor,
    env: Environment,
    env_params: EnvParams,
    keys: jax.Array,
    key: jax.Array,
    opponent: Actor | None = None,
    side: str | None = None,
) -> Outcomes:
    """Plays one episode per task key, to its end or the environment's limit, without resets.

    keys: [E], the tasks; key: randomness of actions and environment. With several agents the actor
    has seat i % A of episode i (with teams: all seats of team i % 2), and outcomes are those of its
    first seat; the opponent has the other seats, or the actor itself if there is none.
    side: the actor has all seats of this one of the environment's `sides` instead; outcomes are
    those of the first of them.
    """
    firsts, world = first_of_teams(env), World(env, env_params)
    team = _teams(keys.shape[0], len(firsts))
    own = jnp.asarray(firsts)[team]
    actors = (actor,) if opponent is None else (actor, opponent)
    seating = seat_teams(env, team, len(actors) - 1)
    if side is not None:
        state = envs.vector.draw(env, env_params, keys).state
        seating = seat_side(world, state, side, len(actors) - 1)
        own = jnp.argmax(seating.learns, axis=1).astype(jnp.int32)
    results = play_results(actors, world, seating.actor, keys, key)
    return _of_agents(Outcomes(results.episode_return, results.moves, results.success), own)
