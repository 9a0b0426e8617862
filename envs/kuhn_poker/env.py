"""KuhnPoker-v1: three cards, one bet, two players; one hand, or several as TextArena plays."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.game import GameParams, opening
from envs.kuhn_poker import match, rules
from envs.rules_game import RulesGame, RulesState

REWARDS = ("chips", "most_chips", "last_round")
RANKS = "JQK"


@struct.dataclass
class KuhnPokerState(RulesState):
    """game: state of `envs.kuhn_poker.match`. coins: i32[rounds], 0 to 8, random numbers for the
    expert's mixing; not observed."""

    coins: jax.Array


@struct.dataclass
class KuhnPokerParams(GameParams):
    """max_steps_in_episode: by default three actions per hand with an illegal one before each."""

    max_steps_in_episode: int = 6


@dataclasses.dataclass(frozen=True)
class KuhnPoker(RulesGame):
    """Two seats, cards J, Q, K; `envs.kuhn_poker.rules` is a hand, `match` a game of several.

    rounds: hands of a game, dealt independently; the opener alternates.
    opener: the seat that acts first in the first hand.
    pot_grows: bets are paid. Otherwise every hand is worth 1, and calling is free.
    reward: "chips": gain or loss of each hand, at its end; "most_chips": at the end 1 for the seat
      that has won more, -1 for the other, 0 if equal; "last_round": the same for the winner of the
      last hand alone.

    Observation: f32[12]: own card (3), the hand's actions (3 times pass, bet), whether the agent
    opens it, own chips and hands left, both over `rounds`. Actions: 0 pass (check or fold), 1 bet
    (or call). Expert: the equilibrium in which the opener never bets first (alpha = 0); if bets are
    not paid, always bet.

    Single hands are OpenSpiel's kuhn_poker (value -1/18 for the opener, who is seat 0 there).
    TextArena's KuhnPoker is rounds=3, opener=1, pot_grows=False, reward="most_chips"; SPIRAL's is
    rounds=5 with reward="last_round". Both were read, and their recorded games are replayed.
    """

    rounds: int = 1
    opener: int = 0
    pot_grows: bool = True
    reward: str = "chips"

    game = match
    costly_reset: ClassVar[bool] = False
    wordings: ClassVar[str] = "envs.kuhn_poker.words"
    # Names without a bet on the table.
    action_names: ClassVar[tuple[str, ...]] = ("pass", "bet")

    def __post_init__(self):
        if self.rounds < 1 or self.opener not in (0, 1):
            raise ValueError(
                f"KuhnPoker rounds={self.rounds}, opener={self.opener}: expected at least 1 round, "
                "and seat 0 or 1"
            )
        if self.reward not in REWARDS:
            raise ValueError(
                f"KuhnPoker reward={self.reward!r}: expected one of {', '.join(REWARDS)}"
            )

    @property
    def tabular_name(self) -> str | None:
        """Defined for single hands with a pot that grows, seat 0 first, paid in chips."""
        rules = (self.rounds, self.opener, self.pot_grows, self.reward)
        return "KuhnPoker-v1" if rules == (1, 0, True, "chips") else None

    @property
    def default_params(self) -> KuhnPokerParams:
        """TextArena's costs of illegal actions, with time for them."""
        return KuhnPokerParams(max_steps_in_episode=6 * self.rounds)

    def initial(self, key: jax.Array, params: KuhnPokerParams) -> KuhnPokerState:
        # One random word per hand, for 6 deals and 9 coins: permutations take ten times as
        # long. Some outcomes are more likely than others by 54 / 2^32.
        number = (jax.random.bits(key, (self.rounds,)) % 54).astype(jnp.int32)
        deal, coins = number % 6, number // 6
        first, second = deal // 2, deal % 2
        cards = jnp.stack([first, second + (second >= first)], axis=-1)
        return self._of(cards, coins)

    def _of(self, cards: jax.Array, coins: jax.Array, **fields: Any) -> KuhnPokerState:
        start = match.initial(cards, self.opener, self.pot_grows, self.reward)
        return KuhnPokerState(**opening(), game=start.replace(**fields), coins=coins)

    def at(self, game: rules.State) -> KuhnPokerState:
        """The state of a match in its first hand, which seat 0 opens."""
        cards = jnp.broadcast_to(game.cards, (self.rounds, 2))
        return self._of(cards, jnp.zeros(self.rounds, jnp.int32), actions=game.actions)

    def observe_as(
        self, state: KuhnPokerState, agent: jax.Array, params: KuhnPokerParams
    ) -> jax.Array:
        at = state.game
        cards = match.of_hand(at, at.cards)
        card = jnp.where(agent == 0, cards[0], cards[1])
        chips = jnp.where(agent == 0, at.chips[0], at.chips[1])
        # All indicators as bits of one word: concatenating small arrays takes several times
        # as long.
        acted = at.actions[:3]
        taken = jnp.where(acted >= 0, 8 << (2 * np.arange(3) + acted), 0)
        word = (1 << card) + jnp.sum(taken) + ((match.first(at) == agent) << 9)
        place = np.arange(12)
        facts = ((word >> np.minimum(place, 9)) & 1).astype(jnp.float32)
        counts = jnp.where(place == 10, chips, self.rounds - at.round) / self.rounds
        return jnp.where(place < 10, facts, counts)

    def expert(self, state: KuhnPokerState, params: KuhnPokerParams) -> jax.Array:
        """Bets with the probability of an equilibrium."""
        if not self.pot_grows:
            return jnp.int32(rules.BET)
        hand = match.hand(state.game)
        acted = rules.num_acted(hand)
        card = hand.cards[acted % 2]
        bet_before = hand.actions[jnp.maximum(acted - 1, 0)] == rules.BET
        # Thirds of the probability to bet or call with J, Q, K: first; after a pass; after
        # a bet; after pass and bet. One base-3 digit of the coins each for the second and
        # the third action.
        thirds = jnp.array([[0, 0, 0], [1, 0, 3], [0, 1, 3], [0, 1, 3]])
        row = jnp.where(acted == 0, 0, jnp.where(acted == 2, 3, jnp.where(bet_before, 2, 1)))
        coins = match.of_hand(state.game, state.coins)
        coin = jnp.where(acted == 2, coins // 3, coins % 3)
        return (coin < thirds[row, card]).astype(jnp.int32)

    def render(self, state: KuhnPokerState, params: KuhnPokerParams) -> str:
        at = state.game
        last = min(int(at.round), self.rounds - 1)
        cards = " ".join(RANKS[c] for c in at.cards[last])
        done = "".join("pb"[a] for a in at.actions if a >= 0)
        return f"hand {int(at.round) + 1} of {self.rounds}: {cards} {done or '-'}"
