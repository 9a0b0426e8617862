"""KuhnPoker-v1: three cards, one bet, two players; one hand, or several as TextArena plays."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.game import GameParams, GameState, TurnGame, opening
from envs.kuhn_poker import rules

REWARDS = ("chips", "most_chips", "last_round")
RANKS = "JQK"


@struct.dataclass
class KuhnPokerState(GameState):
    """State of a game of several hands.

    round: i32[], hands finished. cards: i32[rounds, 2], the card of each seat in each hand.
    actions: i32[4], of this hand in order. chips, latest: i32[2], won so far, and in the last
    finished hand. coins: i32[rounds], 0 to 8, random numbers for the expert's mixing; not observed.
    """

    round: jax.Array
    cards: jax.Array
    actions: jax.Array
    chips: jax.Array
    latest: jax.Array
    coins: jax.Array


@struct.dataclass
class KuhnPokerParams(GameParams):
    """max_steps_in_episode: by default three actions per hand with an illegal one before each."""

    max_steps_in_episode: int = 6


@dataclasses.dataclass(frozen=True)
class KuhnPoker(TurnGame):
    """Two seats, cards J, Q, K; `envs.kuhn_poker.rules` has the rules of a hand.

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
        return KuhnPokerState(
            **opening(),
            round=jnp.zeros((), jnp.int32),
            cards=cards,
            actions=jnp.full(4, -1, jnp.int32),
            chips=jnp.zeros(2, jnp.int32),
            latest=jnp.zeros(2, jnp.int32),
            coins=coins,
        )

    def first(self, state: KuhnPokerState) -> jax.Array:
        """The seat that opens this hand, i32[]."""
        return (self.opener + state.round) % 2

    def _of_hand(self, state: KuhnPokerState, values: jax.Array) -> jax.Array:
        """Entry of i32[rounds, ...] for this hand, or for the last one when all are over."""
        if self.rounds == 1:
            return values[0]
        return values[jnp.minimum(state.round, self.rounds - 1)]

    def hand(self, state: KuhnPokerState) -> rules.State:
        """This hand, with its opener as seat 0 of the rules."""
        cards = self._of_hand(state, state.cards)
        cards = jnp.where(self.first(state) == 0, cards, cards[::-1])
        return rules.State(cards, state.actions)

    def at(self, hand: rules.State) -> KuhnPokerState:
        """The state of a game's first hand with seat 0 as the opener."""
        return KuhnPokerState(
            **opening(),
            round=jnp.zeros((), jnp.int32),
            cards=jnp.broadcast_to(hand.cards, (self.rounds, 2)),
            actions=hand.actions,
            chips=jnp.zeros(2, jnp.int32),
            latest=jnp.zeros(2, jnp.int32),
            coins=jnp.zeros(self.rounds, jnp.int32),
        )

    def mover(self, state: KuhnPokerState, params: KuhnPokerParams) -> jax.Array:
        return (self.first(state) + rules.num_acted(self.hand(state))) % 2

    def transition(
        self, key: jax.Array, state: KuhnPokerState, action: jax.Array, params: KuhnPokerParams
    ) -> tuple[KuhnPokerState, jax.Array]:
        """Pass or bet; a finished hand is paid out and the next one begins."""
        hand = rules.play(self.hand(state), action)
        done = rules.terminal(hand)
        won = rules.returns(hand)
        won = won if self.pot_grows else jnp.sign(won)
        won = jnp.where(self.first(state) == 0, won, won[::-1])
        following = state.replace(
            round=state.round + done,
            actions=jnp.where(done, -1, hand.actions),
            chips=state.chips + won,
            latest=jnp.where(done, won, state.latest),
        )
        if self.reward == "chips":
            return following, won.astype(jnp.float32)
        reward = jnp.where(following.round == self.rounds, jnp.sign(self._counts(following)), 0)
        return following, reward.astype(jnp.float32)

    def _counts(self, state: KuhnPokerState) -> jax.Array:
        """The quantities that are compared to find the winner, i32[2]."""
        return state.latest if self.reward == "last_round" else state.chips

    def observe_as(
        self, state: KuhnPokerState, agent: jax.Array, params: KuhnPokerParams
    ) -> jax.Array:
        cards = self._of_hand(state, state.cards)
        card = jnp.where(agent == 0, cards[0], cards[1])
        chips = jnp.where(agent == 0, state.chips[0], state.chips[1])
        # All indicators as bits of one word: concatenating small arrays takes several times
        # as long.
        acted = state.actions[:3]
        taken = jnp.where(acted >= 0, 8 << (2 * np.arange(3) + acted), 0)
        word = (1 << card) + jnp.sum(taken) + ((self.first(state) == agent) << 9)
        place = np.arange(12)
        facts = ((word >> np.minimum(place, 9)) & 1).astype(jnp.float32)
        counts = jnp.where(place == 10, chips, self.rounds - state.round) / self.rounds
        return jnp.where(place < 10, facts, counts)

    def is_over(self, state: KuhnPokerState, params: KuhnPokerParams) -> jax.Array:
        return state.round >= self.rounds

    def won(self, state: KuhnPokerState, params: KuhnPokerParams) -> jax.Array:
        """The seat that has won more chips, in all hands or in the last one."""
        return self._counts(state) > 0

    def expert(self, state: KuhnPokerState, params: KuhnPokerParams) -> jax.Array:
        """Bets with the probability of an equilibrium."""
        if not self.pot_grows:
            return jnp.int32(rules.BET)
        hand = self.hand(state)
        acted = rules.num_acted(hand)
        card = hand.cards[acted % 2]
        bet_before = hand.actions[jnp.maximum(acted - 1, 0)] == rules.BET
        # Thirds of the probability to bet or call with J, Q, K: first; after a pass; after
        # a bet; after pass and bet. One base-3 digit of the coins each for the second and
        # the third action.
        thirds = jnp.array([[0, 0, 0], [1, 0, 3], [0, 1, 3], [0, 1, 3]])
        row = jnp.where(acted == 0, 0, jnp.where(acted == 2, 3, jnp.where(bet_before, 2, 1)))
        coins = self._of_hand(state, state.coins)
        coin = jnp.where(acted == 2, coins // 3, coins % 3)
        return (coin < thirds[row, card]).astype(jnp.int32)

    def render(self, state: KuhnPokerState, params: KuhnPokerParams) -> str:
        last = min(int(state.round), self.rounds - 1)
        cards = " ".join(RANKS[c] for c in state.cards[last])
        done = "".join("pb"[a] for a in state.actions if a >= 0)
        return f"hand {int(state.round) + 1} of {self.rounds}: {cards} {done or '-'}"
