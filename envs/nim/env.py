"""Nim-v1: take objects from one pile; the seat that takes the last one wins (TextArena's rules)."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.game import GameParams, GameState, TurnGame, opening
from envs.nim import rules


@struct.dataclass
class NimState(GameState):
    """piles: u8[piles], objects left. seat: i32[], the current player."""

    piles: jax.Array
    seat: jax.Array


@dataclasses.dataclass(frozen=True)
class Nim(TurnGame):
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
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Pile and quantity of each action."""
        return rules.pairs(self.piles)

    @property
    def action_names(self) -> tuple[str, ...]:
        """`pile quantity` of each action."""
        return tuple(f"{pile} {quantity}" for pile, quantity in self.pairs)

    def initial(self, key: jax.Array, params: GameParams) -> NimState:
        return NimState(
            **opening(),
            piles=jnp.array(self.piles, jnp.uint8),
            seat=jnp.zeros((), jnp.int32),
        )

    def mover(self, state: NimState, params: GameParams) -> jax.Array:
        return state.seat

    def legal(self, state: NimState, params: GameParams) -> jax.Array:
        return jnp.all(rules.moves(self.piles) <= state.piles, axis=1)

    def transition(
        self, key: jax.Array, state: NimState, action: jax.Array, params: GameParams
    ) -> tuple[NimState, jax.Array]:
        """Removes the objects; taking the last one wins."""
        chosen = jnp.arange(self.num_actions) == action
        taken = jnp.sum(jnp.where(chosen[:, None], rules.moves(self.piles), 0), 0, dtype=jnp.uint8)
        piles = state.piles - taken
        mine = self._agents == state.seat
        reward = jnp.where(jnp.any(piles > 0), 0.0, jnp.where(mine, 1.0, -1.0))
        return state.replace(piles=piles, seat=1 - state.seat), reward

    def observe_as(self, state: NimState, agent: jax.Array, params: GameParams) -> jax.Array:
        return state.piles

    def is_over(self, state: NimState, params: GameParams) -> jax.Array:
        return ~jnp.any(state.piles > 0)

    def won(self, state: NimState, params: GameParams) -> jax.Array:
        return self._agents != state.seat

    def expert(self, state: NimState, params: GameParams) -> jax.Array:
        """The first move that wins, else one object from the largest pile."""
        moves = rules.moves(self.piles)
        legal = self.legal(state, params)
        winning = legal & (rules.nim_sum(state.piles - moves) == 0)
        size = jnp.max(jnp.where(moves == 1, state.piles, 0), axis=1).astype(jnp.int32)
        # A winning move counts as a pile larger than any other.
        worth = jnp.where(winning, 256, jnp.where(legal, size, 0))
        return jnp.argmax(worth).astype(jnp.int32)

    def render(self, state: NimState, params: GameParams) -> str:
        return "\n".join("|" * int(pile) or "." for pile in np.asarray(state.piles))
