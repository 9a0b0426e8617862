"""KuhnPoker-v1: a card each, one bet, two to five players; one hand, or several in a row."""

import dataclasses
import math
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.game import GameParams, opening
from envs.kuhn_poker import match, rules
from envs.rules_game import RulesGame, RulesState

REWARDS = ("chips", "most_chips", "last_round")
RANKS = "89TJQK"
MOST_PLAYERS = len(RANKS) - 1


@struct.dataclass
class KuhnPokerState(RulesState):
    """game: state of `envs.kuhn_poker.match`. coins: i32[rounds], digits of base 3 for the
    expert's mixing, one for each action; not observed."""

    coins: jax.Array


@struct.dataclass
class KuhnPokerParams(GameParams):
    """max_steps_in_episode: by default the actions of all hands, 2N - 1 each, with an illegal one
    before each."""

    max_steps_in_episode: int = 6


@dataclasses.dataclass(frozen=True)
class KuhnPoker(RulesGame):
    """N seats, N + 1 cards up to the king; `envs.kuhn_poker.rules` is a hand, `match` a game.

    players: N, 2 to 5; more than two play for chips, which are paid.
    rounds: hands of a game, dealt independently; the next seat opens the next hand.
    opener: the seat that acts first in the first hand.
    pot_grows: bets are paid. Otherwise every hand is worth 1, and calling is free.
    reward: "chips": gain or loss of each hand, at its end; "most_chips": at the end 1 for the seat
      that has won more, -1 for the other, 0 if equal; "last_round": the same for the winner of the
      last hand alone.

    Observation: f32[6N]: own card (N + 1), the hand's actions (2N - 1 times pass, bet), whether the
    agent is its first, second, ... last but one to act (N - 1), own chips and hands left, both over
    `rounds`. Actions: 0 pass (check or fold), 1 bet (or call).

    Expert: of two players the equilibrium in which the opener never bets first (alpha = 0); if bets
    are not paid, always bet. Of more a rule of thumb, which is no equilibrium: without a bet the
    highest card bets and the lowest one time in three; the highest card calls, and the next one
    time in three.

    Single hands are OpenSpiel's kuhn_poker (of two, value -1/18 for the opener, who is seat 0).
    TextArena's KuhnPoker is rounds=3, opener=1, pot_grows=False, reward="most_chips"; SPIRAL's is
    rounds=5 with reward="last_round". Both were read, and their recorded games are replayed.
    """

    players: int = 2
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
        if not 2 <= self.players <= MOST_PLAYERS:
            raise ValueError(f"KuhnPoker players={self.players}: expected 2 to {MOST_PLAYERS}")
        if self.rounds < 1 or not 0 <= self.opener < self.players:
            raise ValueError(
                f"KuhnPoker rounds={self.rounds}, opener={self.opener}: expected at least 1 round, "
                f"and seat 0 to {self.players - 1}"
            )
        if self.reward not in REWARDS:
            raise ValueError(
                f"KuhnPoker reward={self.reward!r}: expected one of {', '.join(REWARDS)}"
            )

        if self.players > 2 and (not self.pot_grows or self.reward != "chips"):
            raise ValueError(
                f"KuhnPoker players={self.players} with pot_grows={self.pot_grows}, "
                f"reward={self.reward!r}: more than two play with pot_grows=True and reward='chips'"
            )

    @property
    def num_agents(self) -> int:
        """A seat for each of the `players`."""
        return self.players

    @property
    def ranks(self) -> str:
        """The cards, from the lowest."""
        return RANKS[-self.players - 1 :]

    @property
    def tabular(self) -> tuple[str, dict[str, int]] | None:
        """Single hands with a pot that grows, seat 0 first, paid in chips; of two or three: five
        players have 100,000 histories."""
        rules = (self.rounds, self.opener, self.pot_grows, self.reward)
        if rules != (1, 0, True, "chips") or self.players > 3:
            return None
        return "KuhnPoker-v1", {} if self.players == 2 else {"players": self.players}

    @property
    def default_params(self) -> KuhnPokerParams:
        """TextArena's costs of illegal actions, with time for them."""
        return KuhnPokerParams(max_steps_in_episode=2 * (2 * self.players - 1) * self.rounds)

    def initial(self, key: jax.Array, params: KuhnPokerParams) -> KuhnPokerState:
        # One random word per hand for deal and coins: permutations take ten times as long. Some
        # deals of N cards are more likely than others by (N + 1)! / 2^32; a coin of
        # three sides per action, but for the first of two players, whose expert never bets there;
        # the last coin of five players is uneven by 0.3 %.
        deals, coins = math.factorial(self.players + 1), 3 ** (2 * self.players - 1 - self._unmixed)
        number = jax.random.bits(key, (self.rounds,)) % (deals * coins)
        return self._of(self._dealt((number % deals).astype(jnp.int32)), number // deals)

    @property
    def _unmixed(self) -> int:
        """How many actions of a hand the expert takes without a coin."""
        return 1 if self.players == 2 else 0

    def _dealt(self, deal: jax.Array) -> jax.Array:
        """The deals of numbers i32[rounds] below (N + 1)!, i32[rounds, N].

        The digits of a number are how many of the cards that are left lie below each seat's.
        """
        digits = []
        for left in range(2, self.players + 2):
            digits.append(deal % left)
            deal = deal // left
        cards = digits[::-1]
        for seat in reversed(range(self.players)):
            for later in range(seat + 1, self.players):
                cards[later] = cards[later] + (cards[later] >= cards[seat])
        return jnp.stack(cards, axis=-1)

    def _of(self, cards: jax.Array, coins: jax.Array, **fields: Any) -> KuhnPokerState:
        start = match.initial(cards, self.opener, self.pot_grows, self.reward)
        return KuhnPokerState(
            **opening(), game=start.replace(**fields), coins=coins.astype(jnp.int32)
        )

    def at(self, game: rules.State) -> KuhnPokerState:
        """The state of a match in its first hand, which seat 0 opens."""
        cards = jnp.broadcast_to(game.cards, (self.rounds, self.players))
        return self._of(cards, jnp.zeros(self.rounds, jnp.int32), actions=game.actions)

    def observe_as(
        self, state: KuhnPokerState, agent: jax.Array, params: KuhnPokerParams
    ) -> jax.Array:
        at, seats = state.game, np.arange(self.players)
        mine = seats == agent
        card = jnp.sum(jnp.where(mine, match.of_hand(at, at.cards), 0))
        chips = jnp.sum(jnp.where(mine, at.chips, 0))
        # All indicators as bits of one word: concatenating small arrays takes several times
        # as long.
        first_action = self.players + 1
        acted = at.actions[:-1]
        order = first_action + 2 * acted.shape[0]
        taken = jnp.where(
            acted >= 0, 1 << (first_action + 2 * np.arange(acted.shape[0]) + acted), 0
        )
        behind = (agent - match.first(at)) % self.players
        word = (1 << card) + jnp.sum(taken) + (1 << (order + behind))
        place = np.arange(6 * self.players)
        facts = ((word >> np.minimum(place, place[-3])) & 1).astype(jnp.float32)
        counts = jnp.where(place == place[-2], chips, self.rounds - at.round) / self.rounds
        return jnp.where(place < place[-2], facts, counts)

    def expert(self, state: KuhnPokerState, params: KuhnPokerParams) -> jax.Array:
        """Bets with the probability of an equilibrium, or of the rule of thumb."""
        if not self.pot_grows:
            return jnp.int32(rules.BET)
        hand = match.hand(state.game)
        acted = rules.num_acted(hand)
        card = hand.cards[acted % self.players]
        faces_bet = jnp.any(hand.actions == rules.BET)
        # Thirds of the probability to bet without a bet, and to call.
        best, next_best, worst = card == self.players, card == self.players - 1, card == 0
        thirds = jnp.where(best, 3, jnp.where(faces_bet, next_best, worst))
        opens = acted < self._unmixed
        coins = match.of_hand(state.game, state.coins)
        coin = coins // 3 ** jnp.maximum(acted - self._unmixed, 0) % 3
        return ((coin < thirds) & ~opens).astype(jnp.int32)

    def render(self, state: KuhnPokerState, params: KuhnPokerParams) -> str:
        at = state.game
        last = min(int(at.round), self.rounds - 1)
        cards = " ".join(self.ranks[c] for c in at.cards[last])
        done = "".join("pb"[a] for a in at.actions if a >= 0)
        return f"hand {int(at.round) + 1} of {self.rounds}: {cards} {done or '-'}"
