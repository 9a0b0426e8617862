"""Whose move it is: what the agents of B episodes see, and their actions put together again.

Letters besides those of `agentrl.streams`: B episodes, A agents, S of them looked at in a step. In
a game in turns that is the one to move, S = 1; where all may move at once, or all have to follow
the game because they remember it, S = A. An environment of one agent has A = S = 1.
"""

from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from envs.environment import Environment
from envs.game import Game, TurnGame


class Seen(NamedTuple):
    """What is put before a policy, [B, S] each.

    seat: i32, the agent. observation: [B, S, ...]. legal: bool[B, S, num_actions]. acting: bool,
    whether the agent moves now; what it would do is not read otherwise.
    """

    seat: jax.Array
    observation: chex.ArrayTree
    legal: jax.Array
    acting: jax.Array


def agents(env: Any) -> int:
    """A."""
    return env.num_agents if isinstance(env, Game) else 1


def takes_vectors(env: Any) -> bool:
    """Whether actions are continuous, f32[*env.action_shape] each."""
    return isinstance(env, Environment) and env.continuous


def parents(env: Any, matches: int) -> jax.Array | None:
    """Of stream b * A + seat, the stream of the agent that it acts for, i32[matches * A].

    -1 for who acts for itself; None in a game where all do.
    """
    if not isinstance(env, Game) or env.callers is None:
        return None
    caller = np.array(env.callers, np.int32)
    first = env.num_agents * np.arange(matches, dtype=np.int32)[:, None]
    return jnp.asarray(np.where(caller < 0, -1, first + caller).reshape(-1))


def teams(env: Any) -> np.ndarray:
    """The team of each agent, i32[A], numbered from 0: who plays together (`sides_of_seats`)."""
    if not isinstance(env, Game):
        return np.zeros(1, np.int32)
    return np.array(env.sides_of_seats, np.int32)


def first_of_teams(env: Any) -> np.ndarray:
    """The first agent of each team, i32[teams]: what its results are read off."""
    return np.unique(teams(env), return_index=True)[1].astype(np.int32)


def sides(env: Any, env_params: Any, state: Any) -> jax.Array | None:
    """Which of the game's sides each seat of the states [B, ...] is on, i32[B, A], or None."""
    if not env.sides:
        return None
    return jax.vmap(env.side_of, in_axes=(0, None))(state, env_params)


def check_side(env: Any, side: str, opponent: str) -> None:
    """ValueError unless the game has that side, and somebody has the others."""
    if side == "none":
        return
    known = env.sides if isinstance(env, Game) else ()
    if side not in known:
        raise ValueError(
            f"side={side!r} with {env.name}, whose sides are {', '.join(known) or 'none'}: "
            "choose one of them, or 'none'"
        )
    if opponent == "self":
        raise ValueError(f"side={side!r} with opponent='self', who has all seats: use 'none'")


def looked_at(env: Any, *, all_look: bool) -> int:
    """S. all_look: agents follow the turns of others too."""
    return agents(env) if all_look or not isinstance(env, TurnGame) else 1


def look(env: Any, env_params: Any, state: Any, observation: Any, *, all_look: bool) -> Seen:
    """What agents see in the states [B, ...] with observations [B, ...], of games [B, A, ...]."""
    if looked_at(env, all_look=all_look) < agents(env):
        return _of_mover(env, env_params, state, observation)
    legal = jax.vmap(env.legal_actions, in_axes=(0, None))(state, env_params)
    batch = legal.shape[0]
    if not isinstance(env, Game):
        observation = jax.tree.map(lambda x: x[:, None], observation)
        seat = jnp.zeros((batch, 1), jnp.int32)
        return Seen(seat, observation, legal, jnp.ones((batch, 1), bool))
    acting = jax.vmap(env.acting, in_axes=(0, None))(state, env_params)
    everyone = jnp.arange(env.num_agents, dtype=jnp.int32)
    seat = jnp.broadcast_to(everyone, (batch, env.num_agents))
    # For those who do not move anything will do, but a distribution it must be.
    return Seen(seat, observation, legal | ~acting[..., None], acting)


def _of_mover(env: TurnGame, env_params: Any, state: Any, observation: Any) -> Seen:
    """`look` at the one whose turn it is.

    Legality is asked of that one only, and its observation chosen by comparisons: on a CPU, two
    gathers by seat take longer than all else in a step of poker.
    """

    def of_state(state):
        return (f(state, env_params) for f in (env.mover, env.legal, env.is_running))

    seat, legal, acting = jax.vmap(lambda state: tuple(of_state(state)))(state)

    def own(x):
        """x[b, seat[b]] of [B, A, ...], as [B, 1, ...]."""
        here, chosen = seat.reshape(-1, *[1] * (x.ndim - 2)), x[:, 0]
        for agent in range(1, x.shape[1]):
            chosen = jnp.where(here == agent, x[:, agent], chosen)
        return chosen[:, None]

    legal = legal | ~acting[:, None]
    observation = jax.tree.map(own, observation)
    return Seen(seat[:, None], observation, legal[:, None], acting[:, None])


def by_agent(env: Any, seat: jax.Array, values: jax.Array) -> jax.Array:
    """Values of who was looked at, [B, S, ...], as [B, A, ...]; 0 or False for the others."""
    places = seat[..., None] == jnp.arange(agents(env))
    places = places.reshape(*places.shape, *[1] * (values.ndim - 2))
    chosen = jnp.where(places, values[:, :, None], jnp.zeros((), values.dtype))
    return jnp.any(chosen, axis=1) if values.dtype == bool else jnp.sum(chosen, axis=1)


def where(flags: jax.Array, values: jax.Array, others: jax.Array) -> jax.Array:
    """`jnp.where` of flags [B, S] beside values [B, S, ...]."""
    return jnp.where(flags.reshape(*flags.shape, *[1] * (values.ndim - 2)), values, others)


def joint(env: Any, seat: jax.Array, action: jax.Array) -> jax.Array:
    """Actions [B, S, ...] as the environment takes them: [B, ...], or [B, A, ...] of games."""
    return by_agent(env, seat, action) if isinstance(env, Game) else action[:, 0]


def random_play(seen: Seen, key: jax.Array) -> jax.Array:
    """Any legal action of everyone looked at, i32[B, S]."""
    return jax.random.categorical(key, jnp.where(seen.legal, 0.0, -jnp.inf)).astype(jnp.int32)


def expert_play(env: Any, env_params: Any, state: Any, seen: Seen) -> jax.Array:
    """What the environment's expert does for everyone looked at, [B, S, ...]."""
    best = jax.vmap(env.expert, in_axes=(0, None))(state, env_params)
    if not isinstance(env, Game) or best.ndim == 1:  # of one agent, or of whose turn it is
        return jnp.broadcast_to(best[:, None], (*seen.seat.shape, *best.shape[1:]))
    seat = seen.seat.reshape(*seen.seat.shape, *[1] * (best.ndim - 2))
    return jnp.take_along_axis(best, seat, axis=1)
