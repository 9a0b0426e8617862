"""A game as those who move meet it, each by itself: an environment of one agent.

Letters: B states, A agents, S of them who move at a time: the one whose turn it is, S = 1, or in a
game in which all act at once everybody, S = A. An environment of one agent has S = 1.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from envs.game import Game, GameParams, GameState, TurnGame
from envs.text.view import Text, View, command_fragments, packed


@struct.dataclass
class Place:
    """A game's state as one of its agents stands before it. agent: i32[]."""

    state: GameState
    agent: jax.Array


@dataclasses.dataclass(frozen=True)
class Mover:
    """What a `Game` says of all agents, of one that moves.

    Texts, commands, legal actions and experts are those of a `Place`, and `places` says who stands
    where. What happens, happens to the game: rewards, `info["valid"]` and `info["success"]` stay
    [A], and an action is that of whose turn it is, i32[], or all agents', i32[A].
    """

    game: Game

    @property
    def name(self) -> str:
        """The game's."""
        return self.game.name

    @property
    def view(self) -> View:
        """The view of a place, (place, params) as in environments of one agent."""
        return _view(self.game)

    @property
    def movers(self) -> int:
        """S."""
        return 1 if isinstance(self.game, TurnGame) else self.game.num_agents

    def places(self, state: GameState, params: GameParams) -> Place:
        """Who is to move, [S]; where all act at once, those who do not are among them."""
        if isinstance(self.game, TurnGame):
            agent = self.game.mover(state, params)[None]
        else:
            agent = jnp.arange(self.game.num_agents, dtype=jnp.int32)
        state = jax.tree.map(lambda x: jnp.broadcast_to(x, (self.movers, *x.shape)), state)
        return Place(state, agent)

    def acting(self, place: Place, params: GameParams) -> jax.Array:
        """Whether the agent moves now, bool[]."""
        return self.game.acting(place.state, params)[place.agent]

    def initial(self, key: jax.Array, params: GameParams) -> GameState:
        """The game's."""
        return self.game.initial(key, params)

    def describe(self, place: Place, params: GameParams) -> Text:
        """What the agent reads: fragments i32[1, K], length i32[1]."""
        text = packed(self.view, self.view.describe(place, params))
        return jax.tree.map(lambda x: x[None], text)

    def commands(self, place: Place, params: GameParams) -> jax.Array:
        """How the agent writes each action now, fragments i32[num_actions, C]."""
        return command_fragments(self.view, self.view.slots(place, params))

    def legal_actions(self, place: Place, params: GameParams) -> jax.Array:
        """bool[1, num_actions]."""
        return self.game.legal_actions(place.state, params)[place.agent][None]

    def fingerprint(self, place: Place, params: GameParams, *, of: str) -> jax.Array:
        """Anchor of the agent, u32[1, 2], as the game's."""
        return self.game.fingerprint(place.state, params, of=of)[place.agent][None]

    def expert(self, place: Place, params: GameParams) -> jax.Array:
        """The game's expert, i32[]."""
        best = self.game.expert(place.state, params)
        return best if isinstance(self.game, TurnGame) else best[place.agent]

    def is_truncated(self, state: GameState, params: GameParams) -> jax.Array:
        """The game's."""
        return self.game.is_truncated(state, params)

    def step_env(
        self, key: jax.Array, state: GameState, action: jax.Array, params: GameParams
    ) -> tuple[jax.Array, GameState, jax.Array, jax.Array, dict[str, Any]]:
        """The game's."""
        return self.game.step_env(key, state, action, params)


@functools.lru_cache(maxsize=64)
def _view(game: Game) -> View:
    view = game.view

    def describe(place, params):
        return view.describe(place.state, params, place.agent)

    def slots(place, params):
        return view.slots(place.state, params, place.agent)

    return dataclasses.replace(view, describe=describe, slots=slots)


def of_one_agent(env: Any) -> Any:
    """The environment, or the `Mover` of a game."""
    return Mover(env) if isinstance(env, Game) else env


def seats(env: Any) -> int:
    """Agents of the game that a `Mover` goes through; 1 otherwise."""
    return env.game.num_agents if isinstance(env, Mover) else 1


def movers(env: Any) -> int:
    """S."""
    return env.movers if isinstance(env, Mover) else 1


def places(env: Any, state: Any, params: Any) -> Any:
    """What agents stand before in states [B, ...], [B * S, ...]; the states where there is one."""
    if not isinstance(env, Mover):
        return state
    there = jax.vmap(env.places, in_axes=(0, None))(state, params)
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), there)


def seat_of(env: Any, places: Any) -> jax.Array:
    """Whose places they are, i32[B * S]; 0 where there is one agent."""
    if isinstance(env, Mover):
        return places.agent
    return jnp.zeros(jax.tree.leaves(places)[0].shape[0], jnp.int32)
