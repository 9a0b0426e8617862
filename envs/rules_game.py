"""Games whose rules are a module: its form, and the environment that passes on to it.

A module `envs/NAME/rules.py` is the game, without protocol and without words: a state, which is a
pytree, and pure functions of one state.

* `initial(...) -> state`
* `player(state) -> i32[]`: the seat that acts next
* `legal(state) -> bool[num_actions]`: what that seat may do
* `play(state, action, ...) -> state`: after a legal action; after others, anything
* `terminal(state) -> bool[]`
* `returns(state) -> i32[N]`: what each seat has won so far
* `information_state(state, player) -> str`: what a seat knows, on the host

The rules draw nothing: what chance decides is an argument, of `initial` (a deal) or of `play` (a
die). What an option fixes (the piles of Nim at the start, the rows of a board) is a static field of
the state, so that no function but `initial` has options.

A game that is small enough is also a table (`agentrl.selfplay.games`), if the module has

* `deals(**options) -> state`: all starts, equally likely, along a leading axis; chance decides
  nothing later
* `history(state) -> tuple[int, ...]`, on the host: the deal and all actions in the order in which
  they are observed; only where players see a part of the deal later than at the start

A player remembers what `information_state` told it before, so the state of a game need not.
"""

import dataclasses
from types import ModuleType
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from flax import struct

from envs.game import GameParams, GameState, TurnGame, opening


@struct.dataclass
class RulesState(GameState):
    """game: state of the rules."""

    game: Any


@dataclasses.dataclass(frozen=True)
class RulesGame(TurnGame):
    """A turn-based game that is the module `game`, in the form above.

    A subclass defines `game`, what its deal and its moves are drawn from (`start`, `chance`), and
    what the rules do not know: `observe_as`, `action_names`, `default_params`, an expert, a
    drawing, words.
    """

    game: ClassVar[ModuleType]

    def start(self, key: jax.Array, params: GameParams) -> tuple[Any, ...]:
        """The arguments of the rules' `initial`: options, and what chance decides."""
        return ()

    def chance(self, key: jax.Array, params: GameParams) -> tuple[Any, ...]:
        """The arguments of the rules' `play` behind state and action."""
        return ()

    def at(self, game: Any) -> RulesState:
        """The environment's state in a state of the rules, without errors or steps so far."""
        return RulesState(**opening(), game=game)

    def initial(self, key: jax.Array, params: GameParams) -> RulesState:
        return self.at(self.game.initial(*self.start(key, params)))

    def mover(self, state: RulesState, params: GameParams) -> jax.Array:
        return self.game.player(state.game)

    def legal(self, state: RulesState, params: GameParams) -> jax.Array:
        return self.game.legal(state.game)

    def transition(
        self, key: jax.Array, state: RulesState, action: jax.Array, params: GameParams
    ) -> tuple[RulesState, jax.Array]:
        """Pays what the action adds to the rules' returns."""
        game = self.game.play(state.game, action, *self.chance(key, params))
        won = self.game.returns(game) - self.game.returns(state.game)
        return state.replace(game=game), won.astype(jnp.float32)

    def is_over(self, state: RulesState, params: GameParams) -> jax.Array:
        return self.game.terminal(state.game)

    def won(self, state: RulesState, params: GameParams) -> jax.Array:
        """Seats whose returns are above 0, bool[N]."""
        return self.game.returns(state.game) > 0
