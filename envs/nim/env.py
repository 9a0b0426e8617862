"""Nim-v1: take objects from one pile; the seat that takes the last one wins (TextArena's rules)."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from envs.game import GameParams
from envs.nim import rules
from envs.rules_game import RulesGame, RulesState


@dataclasses.dataclass(frozen=True)
class Nim(RulesGame):
    """Two seats take objects in turn, any number from one pile, seat 0 first.

    Observation: uint8[piles], objects left on each pile. Actions: pairs of pile and quantity, pile
    by pile, the quantities from 1 to the pile's size at the start; more than are left is illegal
    (`GameParams`). Reward: 1 for taking the last object, -1 for the other seat; no draws.
    TextArena's "medium" piles are (4, 2, 3, 7), its "large" ones (5, 7, 9, 11, 2).

    Expert: optimal, a move after which the nim-sum is 0; if there is none, one object from the
    largest pile, to prolong the game.
    The game is deterministic: every key gives the same task.
    Source: TextArena 0.7.4 (read), Nim-v0; its recorded games are replayed.
    """

    piles: tuple[int, ...] = (3, 4, 5)

    game = rules
    costly_reset: ClassVar[bool] = False
    perfect_information: ClassVar[bool] = True
    deterministic: ClassVar[bool] = True
    wordings: ClassVar[str] = "envs.nim.words"

    def __post_init__(self):
        if not self.piles or not all(1 <= pile <= 255 for pile in self.piles):
            raise ValueError(f"piles={self.piles}: expected at least one, of 1 to 255 objects each")

    @property
    def num_codes(self) -> int:
        """One more than the largest pile."""
        return max(self.piles) + 1

    @property
    def default_params(self) -> GameParams:
        """TextArena's costs; time to take objects one by one with an illegal move before each."""
        return GameParams(max_steps_in_episode=2 * sum(self.piles))

    @property
    def action_names(self) -> tuple[str, ...]:
        """`pile quantity` of each action."""
        return tuple(f"{pile} {quantity}" for pile, quantity in rules.pairs(self.piles))

    def start(self, key: jax.Array, params: GameParams) -> tuple[Any, ...]:
        return (self.piles,)

    def observe_as(self, state: RulesState, agent: jax.Array, params: GameParams) -> jax.Array:
        return state.game.piles

    def expert(self, state: RulesState, params: GameParams) -> jax.Array:
        """The first move that wins, else one object from the largest pile."""
        piles, moves = state.game.piles, rules.moves(self.piles)
        legal = rules.legal(state.game)
        winning = legal & (rules.nim_sum(piles - moves) == 0)
        size = jnp.max(jnp.where(moves == 1, piles, 0), axis=1).astype(jnp.int32)
        # A winning move counts as a pile larger than any other.
        worth = jnp.where(winning, 256, jnp.where(legal, size, 0))
        return jnp.argmax(worth).astype(jnp.int32)

    def render(self, state: RulesState, params: GameParams) -> str:
        return "\n".join("|" * int(pile) or "." for pile in np.asarray(state.game.piles))
