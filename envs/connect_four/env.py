"""ConnectFour-v1: four discs in a line (TextArena's rules)."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from envs.connect_four import rules
from envs.game import GameParams
from envs.rules_game import RulesGame, RulesState

EMPTY, OWN, OTHER = range(3)
MARKS = "XO"


@dataclasses.dataclass(frozen=True)
class ConnectFour(RulesGame):
    """Two seats drop discs into columns in turn, seat 0 first.

    Observation: uint8[rows, columns], top row first, 0 empty, 1 own disc, 2 the other's.
    Actions: columns from the left; full ones are illegal (`GameParams`). Reward: 1 for four discs
    in a line, -1 for the other seat; 0 in a draw. TextArena's "large" board is 12 x 15.

    Expert: the first of the best columns by a search of 1 + `expert_depth` moves, which also
    detects lines one move later, and counts free squares that complete a line.
    The game is deterministic: every key gives the same task.
    Source: TextArena 0.7.4 (read), ConnectFour-v0; its recorded games are replayed.
    """

    rows: int = 6
    columns: int = 7
    expert_depth: int = 1

    game = rules
    num_codes: ClassVar[int] = 3
    costly_reset: ClassVar[bool] = False
    perfect_information: ClassVar[bool] = True
    deterministic: ClassVar[bool] = True
    wordings: ClassVar[str] = "envs.connect_four.words"

    def __post_init__(self):
        if not (4 <= self.rows <= 32 and 4 <= self.columns <= 32):
            raise ValueError(f"board of {self.rows} x {self.columns}: expected 4 to 32 of each")
        if not 0 <= self.expert_depth <= 4:
            raise ValueError(f"expert_depth={self.expert_depth}: expected 0 to 4")

    @property
    def default_params(self) -> GameParams:
        """TextArena's costs; time for a full board with an illegal move before each one."""
        return GameParams(max_steps_in_episode=2 * self.rows * self.columns)

    @property
    def action_names(self) -> tuple[str, ...]:
        return tuple(map(str, range(self.columns)))

    def start(self, key: jax.Array, params: GameParams) -> tuple[Any, ...]:
        return self.rows, self.columns

    def observe_as(self, state: RulesState, agent: jax.Array, params: GameParams) -> jax.Array:
        """The board with the agent's own discs as 1."""
        first, second = state.game.discs
        own, other = jnp.where(agent == 0, first, second), jnp.where(agent == 0, second, first)
        codes = jnp.where(rules.squares(other, self.rows), OTHER, EMPTY)
        return jnp.where(rules.squares(own, self.rows), OWN, codes).astype(jnp.uint8)

    def expert(self, state: RulesState, params: GameParams) -> jax.Array:
        """The first of the columns with the highest value."""
        first, second = state.game.discs
        seat = rules.player(state.game)
        own, other = jnp.where(seat == 0, first, second), jnp.where(seat == 0, second, first)
        return jnp.argmax(rules.values(own, other, self.rows, self.expert_depth)).astype(jnp.int32)

    def render(self, state: RulesState, params: GameParams) -> str:
        """The board with X for seat 0 and O for seat 1."""
        codes = np.asarray(self.observe_as(state, 0, params))
        return "\n".join("".join(f".{MARKS}"[c] for c in row) for row in codes)
