"""TicTacToe-v1: three in a row (TextArena's rules)."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.game import GameParams
from envs.rules_game import RulesGame, RulesState
from envs.tictactoe import rules

EMPTY, OWN, OTHER = range(3)
MARKS = "OX"


@struct.dataclass
class TicTacToeParams(GameParams):
    """max_steps_in_episode: nine moves with an illegal one before each."""

    max_steps_in_episode: int = 18


@dataclasses.dataclass(frozen=True)
class TicTacToe(RulesGame):
    """Two seats mark squares in turn, seat 0 first.

    Observation: uint8[3, 3], 0 empty, 1 own mark, 2 the other's. Actions: squares 0 to 8, row by
    row; taken ones are illegal (`GameParams`). Reward: 1 for three in a row, -1 for the other seat;
    0 in a draw. Expert: minimax, the first of the best squares.

    The game is deterministic: every key gives the same task.
    Source: TextArena 0.7.4 (read), TicTacToe-v0; its recorded games are replayed.
    """

    game = rules
    num_codes: ClassVar[int] = 3
    costly_reset: ClassVar[bool] = False
    perfect_information: ClassVar[bool] = True
    deterministic: ClassVar[bool] = True
    wordings: ClassVar[str] = "envs.tictactoe.words"
    # 18 steps: nine moves, with an illegal one, as TextArena forgives it, before each.
    default_params: ClassVar[TicTacToeParams] = TicTacToeParams()
    action_names: ClassVar[tuple[str, ...]] = tuple(map(str, range(9)))

    def observe_as(self, state: RulesState, agent: jax.Array, params: TicTacToeParams) -> jax.Array:
        """The board with the agent's own marks as 1."""
        first, second = rules.squares(state.game.marks)
        own, other = jnp.where(agent == 0, first, second), jnp.where(agent == 0, second, first)
        codes = jnp.where(own, OWN, jnp.where(other, OTHER, EMPTY))
        return codes.reshape(3, 3).astype(jnp.uint8)

    def expert(self, state: RulesState, params: TicTacToeParams) -> jax.Array:
        marks, seat = state.game.marks, rules.player(state.game)
        best = jnp.asarray(rules.best_moves())[marks[seat], marks[1 - seat]]
        return jnp.argmax(rules.squares(best.astype(jnp.int32))).astype(jnp.int32)

    def render(self, state: RulesState, params: TicTacToeParams) -> str:
        """The board with O for seat 0 and X for seat 1."""
        codes = np.asarray(self.observe_as(state, 0, params))
        return "\n".join("".join(f".{MARKS}"[c] for c in row) for row in codes)
