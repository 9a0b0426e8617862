"""LeducPoker-v1: six cards, two rounds of betting, a public card (two players)."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.game import GameParams
from envs.leduc_poker import rules
from envs.rules_game import RulesGame, RulesState

RANKS = "JQK"


@struct.dataclass
class LeducPokerParams(GameParams):
    """max_steps_in_episode: four actions per round, an illegal one before each."""

    max_steps_in_episode: int = 16


@dataclasses.dataclass(frozen=True)
class LeducPoker(RulesGame):
    """Two seats, two cards each of J, Q, K; `envs.leduc_poker.rules` has the rules of a hand.

    deal: "cards": any three of the six cards; "ranks": the ranks of the three cards are equally
    likely (of those that exist), which makes pairs more frequent, as in MARSHAL.

    Observation: f32[32]: own rank (3), public rank (3, none before the second round), actions (2
    rounds of 4 times fold, call, raise), whether the agent is seat 0, whether there is a raise to
    call. Actions: 0 fold (illegal with nothing to call), 1 call or check, 2 raise. Reward: chips
    won, at the end. Expert: raises pairs and kings, calls with queens, and with jacks if calling is
    free; better than random, not an equilibrium.

    The hands are OpenSpiel's leduc_poker.
    """

    deal: str = "cards"

    game = rules
    costly_reset: ClassVar[bool] = False
    wordings: ClassVar[str] = "envs.leduc_poker.words"
    # 16 steps: four actions per round with an illegal one before each, which costs what it does
    # in TextArena.
    default_params: ClassVar[LeducPokerParams] = LeducPokerParams()
    # In OpenSpiel's order: 0 fold, 1 call (check if nothing is to pay), 2 raise.
    action_names: ClassVar[tuple[str, ...]] = ("fold", "call", "raise")

    def __post_init__(self):
        if self.deal not in ("cards", "ranks"):
            raise ValueError(f"LeducPoker deal={self.deal!r}: expected 'cards' or 'ranks'")

    @property
    def tabular(self) -> tuple[str, dict[str, Any]] | None:
        """The tabular game of the same rules, for exact exploitability; None unless `deal` is
        "cards"."""
        return ("LeducPoker-v1", {}) if self.deal == "cards" else None

    def start(self, key: jax.Array, params: LeducPokerParams) -> tuple[Any, ...]:
        if self.deal == "cards":
            # One of 6 * 5 * 4 deals by one random word: permutations take ten times as
            # long. Some outcomes are more likely than others by 120 / 2^32.
            number = (jax.random.bits(key) % 120).astype(jnp.int32)
            first, second, public = number % 6, number // 6 % 5, number // 30
            second = second + (second >= first)
            low, high = jnp.minimum(first, second), jnp.maximum(first, second)
            public = public + (public >= low)
            cards = jnp.stack([first, second, public + (public >= high)])
        else:
            # 24 triples of ranks: all 27 but three of a kind. The second card of a rank
            # is its odd card.
            triples = [(a, b, c) for a in range(3) for b in range(3) for c in range(3)]
            triples = jnp.array([t for t in triples if len(set(t)) > 1])
            ranks = triples[jax.random.randint(key, (), 0, len(triples))]
            again = jnp.array([False, ranks[1] == ranks[0], jnp.any(ranks[:2] == ranks[2])])
            cards = 2 * ranks + again
        return (cards,)

    def observe_as(
        self, state: RulesState, agent: jax.Array, params: LeducPokerParams
    ) -> jax.Array:
        """The agent's own card, the public one once shown, and the actions so far."""
        hand = state.game
        # All indicators as bits of one word: concatenating small arrays takes ten times as
        # long.
        taken = 1 << (6 + 3 * np.arange(8) + hand.actions.reshape(-1))
        word = (
            (1 << hand.cards[0] // 2) * (agent == 0)
            + (1 << hand.cards[1] // 2) * (agent == 1)
            + jnp.where(hand.round > 0, 8 << hand.cards[2] // 2, 0)
            + jnp.sum(jnp.where(hand.actions.reshape(-1) >= 0, taken, 0))
            + ((agent == 0) << 30)
        )
        # The sign bit.
        to_call = (hand.paid[0] != hand.paid[1]).astype(jnp.uint32) << 31
        word = word.astype(jnp.uint32) | to_call
        return ((word >> np.arange(32, dtype=np.uint32)) & 1).astype(jnp.float32)

    def expert(self, state: RulesState, params: LeducPokerParams) -> jax.Array:
        hand = state.game
        card = hand.cards[rules.player(hand)] // 2
        pair = (hand.round > 0) & (card == hand.cards[2] // 2)
        legal = rules.legal(hand)
        strong = (pair | (card == 2)) & legal[rules.RAISE]
        weak = ~pair & (card == 0) & legal[rules.FOLD]
        return jnp.where(strong, rules.RAISE, jnp.where(weak, rules.FOLD, rules.CALL))

    def render(self, state: RulesState, params: LeducPokerParams) -> str:
        """All three cards and the actions so far."""
        hand = state.game
        cards = " ".join(RANKS[c // 2] for c in hand.cards)
        done = "/".join("".join("fcr"[a] for a in row if a >= 0) for row in hand.actions)
        return f"{cards} {done}"
