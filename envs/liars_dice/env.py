"""LiarsDice-v1: bid on partly hidden dice, or call the bid (TextArena's rules)."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from envs.game import GameParams
from envs.liars_dice import rules
from envs.rules_game import RulesGame, RulesState

NOBODY, OWN, OTHER = range(3)


@dataclasses.dataclass(frozen=True)
class LiarsDice(RulesGame):
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

    game = rules
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

    def start(self, key: jax.Array, params: GameParams) -> tuple[Any, ...]:
        return rules.throw(key, self.dice), self.quantities

    def chance(self, key: jax.Array, params: GameParams) -> tuple[Any, ...]:
        return (rules.throw(key, self.dice),)

    def observe_as(self, state: RulesState, agent: jax.Array, params: GameParams) -> jax.Array:
        """Own dice, the other's number, the bid, the bidder."""
        at = state.game
        bidder = jnp.where(at.seat == agent, OTHER, OWN)
        bidder = jnp.where(at.quantity > 0, bidder, NOBODY)
        own, other = rules.hands_of(at.dice, agent)
        rest = jnp.stack([rules.remaining(other), at.quantity, at.face, bidder])
        return jnp.append(rules.counts(own), rest).astype(jnp.uint8)

    def expert(self, state: RulesState, params: GameParams) -> jax.Array:
        """The first of the actions most likely to win if bids are called."""
        at = state.game
        own, other = rules.hands_of(at.dice, at.seat)
        chance = rules.likelihoods(own, rules.remaining(other), self.quantities)
        bid = jnp.arange(self.quantities)[:, None] == at.quantity - 1
        bid &= jnp.arange(rules.FACES) == at.face - 1
        worth = jnp.append(chance.reshape(-1), 1 - jnp.sum(jnp.where(bid, chance, 0.0)))
        return jnp.argmax(jnp.where(rules.legal(at), worth, -1.0)).astype(jnp.int32)

    def render(self, state: RulesState, params: GameParams) -> str:
        at = state.game
        hands = [" ".join(str(die) for die in hand if die) for hand in np.asarray(at.dice)]
        bid = f"bid {at.quantity} {at.face}" if at.quantity else "no bid"
        return f"{hands[0]} | {hands[1]} | {bid}, seat {at.seat} to act"
