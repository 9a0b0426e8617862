"""LiarsDice-v1: bid on partly hidden dice, or call the bid (TextArena's rules)."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.game import GameParams, GameState, TurnGame, opening
from envs.liars_dice import rules

NOBODY, OWN, OTHER = range(3)


@struct.dataclass
class LiarsDiceState(GameState):
    """State of a game.

    dice: u8[2, dice], faces of each seat's dice, 0 for lost ones. quantity, face: i32[], the
    current bid, 0 for none. seat: i32[], the current player.
    """

    dice: jax.Array
    quantity: jax.Array
    face: jax.Array
    seat: jax.Array


@dataclasses.dataclass(frozen=True)
class LiarsDice(TurnGame):
    """Two seats with hidden dice alternately raise a bid until one calls it, seat 0 first.

    A bid claims that at least this many of all dice show a face; 1 is not wild. A new bid may lower
    neither number and must raise one. If a called bid does not hold, the bidder loses a die, else
    the caller; all dice are thrown anew, and the caller's opponent begins. A seat without dice
    loses.

    Observation: uint8[10]: own dice by face (6), number of the other's dice, quantity and face of
    the bid (0 for none), its owner (0 none, 1 the agent, 2 the other). Actions: all bids, by
    quantity from 1 to `max_quantity` (default: all dice at the start), then by face; last the call.
    Reward: 1 for the winner of the game, -1 for the other seat.

    TextArena has no highest quantity and allows bids of quantity 0, which cannot be called: such
    bids are illegal here. Its "small" game has 3 dice per seat, the "large" one 12. Expert: the
    action that would win most often if bids were called at once, by the probabilities of the hidden
    dice; the lowest of equally good bids. Source: TextArena 0.7.4 (read), LiarsDice-v0; its
    recorded games are replayed with their dice.
    """

    dice: int = 5
    max_quantity: int | None = None

    costly_reset: ClassVar[bool] = False
    wordings: ClassVar[str] = "envs.liars_dice.words"

    def __post_init__(self):
        if not 1 <= self.dice <= 100:
            raise ValueError(f"dice={self.dice}: expected 1 to 100 per seat")
        if not 1 <= self.quantities <= 250:
            raise ValueError(f"max_quantity={self.max_quantity}: expected 1 to 250, or None")

    @property
    def quantities(self) -> int:
        """The highest quantity of a bid."""
        return 2 * self.dice if self.max_quantity is None else self.max_quantity

    @property
    def num_codes(self) -> int:
        """Covers quantities, faces and numbers of dice."""
        return max(self.quantities, rules.FACES, self.dice) + 1

    @property
    def default_params(self) -> GameParams:
        """TextArena's costs; time for the longest rounds with an illegal action before each
        move."""
        longest = self.quantities + rules.FACES
        return GameParams(max_steps_in_episode=2 * (2 * self.dice - 1) * longest)

    @property
    def action_names(self) -> tuple[str, ...]:
        """`bid quantity face`, and `call`."""
        bids = ((q, f) for q in range(1, self.quantities + 1) for f in range(1, rules.FACES + 1))
        return (*(f"bid {quantity} {face}" for quantity, face in bids), "call")

    def initial(self, key: jax.Array, params: GameParams) -> LiarsDiceState:
        zero = jnp.zeros((), jnp.int32)
        dice = rules.roll(key, jnp.full(2, self.dice), self.dice)
        return LiarsDiceState(**opening(), dice=dice, quantity=zero, face=zero, seat=zero)

    def mover(self, state: LiarsDiceState, params: GameParams) -> jax.Array:
        return state.seat

    def legal(self, state: LiarsDiceState, params: GameParams) -> jax.Array:
        """Higher bids, and a call if there is a bid."""
        quantity = np.arange(1, self.quantities + 1)[:, None]
        face = np.arange(1, rules.FACES + 1)
        bids = rules.raises(state.quantity, state.face, quantity, face)
        return jnp.append(bids.reshape(-1), state.quantity > 0)

    def transition(
        self, key: jax.Array, state: LiarsDiceState, action: jax.Array, params: GameParams
    ) -> tuple[LiarsDiceState, jax.Array]:
        """A bid, or a call and the next round."""
        calls = action == self.num_actions - 1
        held = rules.holds(state.dice, state.quantity, state.face)
        loser = jnp.where(held, state.seat, 1 - state.seat)
        left = rules.remaining(state.dice) - (calls & (self._agents == loser))
        following = state.replace(
            dice=jnp.where(calls, rules.roll(key, left, self.dice), state.dice),
            quantity=jnp.where(calls, 0, action // rules.FACES + 1),
            face=jnp.where(calls, 0, action % rules.FACES + 1),
            seat=1 - state.seat,
        )
        reward = jnp.where(left > 0, 1.0, -1.0)
        return following, jnp.where(jnp.any(left == 0), reward, 0.0)

    def observe_as(self, state: LiarsDiceState, agent: jax.Array, params: GameParams) -> jax.Array:
        """Own dice, the other's number, the bid, the bidder."""
        bidder = jnp.where(state.seat == agent, OTHER, OWN)
        bidder = jnp.where(state.quantity > 0, bidder, NOBODY)
        own, other = rules.hands_of(state.dice, agent)
        rest = jnp.stack([rules.remaining(other), state.quantity, state.face, bidder])
        return jnp.append(rules.counts(own), rest).astype(jnp.uint8)

    def is_over(self, state: LiarsDiceState, params: GameParams) -> jax.Array:
        return jnp.any(rules.remaining(state.dice) == 0)

    def won(self, state: LiarsDiceState, params: GameParams) -> jax.Array:
        return rules.remaining(state.dice) > 0

    def expert(self, state: LiarsDiceState, params: GameParams) -> jax.Array:
        """The first of the actions most likely to win if bids are called."""
        own, other = rules.hands_of(state.dice, state.seat)
        chance = rules.likelihoods(own, rules.remaining(other), self.quantities)
        at = jnp.arange(self.quantities)[:, None] == state.quantity - 1
        at &= jnp.arange(rules.FACES) == state.face - 1
        worth = jnp.append(chance.reshape(-1), 1 - jnp.sum(jnp.where(at, chance, 0.0)))
        return jnp.argmax(jnp.where(self.legal(state, params), worth, -1.0)).astype(jnp.int32)

    def render(self, state: LiarsDiceState, params: GameParams) -> str:
        hands = [" ".join(str(die) for die in hand if die) for hand in np.asarray(state.dice)]
        bid = f"bid {state.quantity} {state.face}" if state.quantity else "no bid"
        return f"{hands[0]} | {hands[1]} | {bid}, seat {state.seat} to act"
