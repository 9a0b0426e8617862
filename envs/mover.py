"""A game in turns as one player after the other meets it: an environment of one agent."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp

from envs.game import GameParams, GameState, TurnGame
from envs.text.view import Text, View, command_fragments, pack


@dataclasses.dataclass(frozen=True)
class Mover:
    """What `TurnGame` says of all agents, of the one whose turn it is.

    Observations, legal actions, texts and commands are that agent's, and so is the action, i32[].
    Rewards, `info["valid"]` and `info["success"]` stay [A]: what a move brings it brings to all.
    """

    game: TurnGame

    @property
    def name(self) -> str:
        """The game's."""
        return self.game.name

    @property
    def view(self) -> View:
        """The view of who is to move, (state, params) as in environments of one agent."""
        return _view(self.game)

    def seat(self, state: GameState, params: GameParams) -> jax.Array:
        """Whose turn it is, i32[]."""
        return self.game.mover(state, params)

    def initial(self, key: jax.Array, params: GameParams) -> GameState:
        """The game's."""
        return self.game.initial(key, params)

    def observe(self, state: GameState, params: GameParams) -> jax.Array:
        """What the agent sees, [*observation_shape]."""
        return self.game.observe_as(state, self.seat(state, params), params)

    def describe(self, state: GameState, params: GameParams) -> Text:
        """What the agent reads: fragments i32[1, K], length i32[1]."""
        text = pack(self.view.describe(state, params), self.view.max_fragments)
        return jax.tree.map(lambda x: x[None], text)

    def commands(self, state: GameState, params: GameParams) -> jax.Array:
        """How the agent writes each action now, fragments i32[num_actions, C]."""
        return command_fragments(self.view, self.view.slots(state, params))

    def legal_actions(self, state: GameState, params: GameParams) -> jax.Array:
        """bool[1, num_actions]."""
        return self.game.legal(state, params)[None]

    def fingerprint(self, state: GameState, params: GameParams, *, of: str) -> jax.Array:
        """Anchor of the agent, u32[1, 2], as the game's."""
        seat = self.seat(state, params)
        return self.game.fingerprint(state, params, of=of)[seat][None]

    def expert(self, state: GameState, params: GameParams) -> jax.Array:
        """The game's expert, i32[]."""
        return self.game.expert(state, params)

    def is_truncated(self, state: GameState, params: GameParams) -> jax.Array:
        """The game's."""
        return self.game.is_truncated(state, params)

    def step_env(
        self, key: jax.Array, state: GameState, action: jax.Array, params: GameParams
    ) -> tuple[jax.Array, GameState, jax.Array, jax.Array, dict[str, Any]]:
        """The move of the agent: (observation of the next one, state, reward f32[A], ...)."""
        _, following, reward, terminated, info = self.game.step_env(key, state, action, params)
        return self.observe(following, params), following, reward, terminated, info


@functools.lru_cache(maxsize=64)
def _view(game: TurnGame) -> View:
    view = game.view

    def describe(state, params):
        return view.describe(state, params, game.mover(state, params))

    def slots(state, params):
        return view.slots(state, params, game.mover(state, params))

    return dataclasses.replace(view, describe=describe, slots=slots)


def of_one_agent(env: Any) -> Any:
    """The environment, or the `Mover` of a game in turns. ValueError for other games."""
    if isinstance(env, TurnGame):
        return Mover(env)
    if getattr(env, "num_agents", 1) > 1:
        raise ValueError(f"{env.name}: agents that move at once have no turn to reply in yet")
    return env


def seats(env: Any) -> int:
    """Agents of the game that a `Mover` goes through; 1 otherwise."""
    return env.game.num_agents if isinstance(env, Mover) else 1


def seat_of(env: Any, state: Any, params: Any) -> jax.Array:
    """Whose turn it is, i32[]; 0 where there is one agent."""
    return env.seat(state, params) if isinstance(env, Mover) else jnp.zeros((), jnp.int32)
