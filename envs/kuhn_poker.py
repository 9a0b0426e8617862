"""KuhnPoker-v1: three cards, one bet, two players; one hand, or several as TextArena plays."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
from flax import struct

from envs.game import GameParams, GameState, TurnGame, opening
from envs.rules import kuhn as rules

REWARDS = ("chips", "most_chips", "last_round")
RANKS = "JQK"


@struct.dataclass
class KuhnPokerState(GameState):
    """round: i32[], hands finished. cards: i32[rounds, 2], what each seat holds in each hand.

    actions: i32[4], of this hand in order. chips, latest: i32[2], won so far, and in the last hand
    that is over. coins: f32[rounds, 4],
    uniform numbers that the expert mixes by; nobody sees them.
    """

    round: jax.Array
    cards: jax.Array
    actions: jax.Array
    chips: jax.Array
    latest: jax.Array
    coins: jax.Array


@struct.dataclass
class KuhnPokerParams(GameParams):
    """max_steps_in_episode: by default three actions a hand, and an illegal one before each."""

    max_steps_in_episode: int = 6


@dataclasses.dataclass(frozen=True)
class KuhnPoker(TurnGame):
    """Two seats, cards J, Q, K; `envs.rules.kuhn` says how a hand goes.

    rounds: hands of a game, dealt independently; the opener alternates.
    opener: the seat that acts first in the first hand.
    pot_grows: bets are paid. Without, every hand is worth 1, and calling costs nothing.
    reward: "chips": what each hand won or lost, at its end; "most_chips": at the end 1 for the seat
      that has won more, -1 for the other, 0 if none; "last_round": the same for the winner of the
      last hand, whatever went before.

    Observation: f32[12]: own card (3), the hand's actions (3 times pass, bet), whether one opens
    it, own chips and hands left, both over `rounds`. Actions: 0 pass (check or fold), 1 bet (or
    call). Expert: the equilibrium in which the opener never bets first (alpha = 0); where bets are
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
    wordings: ClassVar[str] = "envs.wordings.kuhn_poker"

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
    def default_params(self) -> KuhnPokerParams:
        """TextArena's for illegal actions; room for each of them."""
        return KuhnPokerParams(max_steps_in_episode=6 * self.rounds)

    @property
    def action_names(self) -> tuple[str, ...]:
        """What they are called where nothing has been bet."""
        return ("pass", "bet")

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """A vector."""
        return (12,)

    def initial(self, key: jax.Array, params: KuhnPokerParams) -> KuhnPokerState:
        """All hands are dealt."""
        deal_key, coin_key = jax.random.split(key)
        deal = jax.vmap(lambda k: jax.random.permutation(k, 3)[:2])
        return KuhnPokerState(
            **opening(),
            round=jnp.zeros((), jnp.int32),
            cards=deal(jax.random.split(deal_key, self.rounds)).astype(jnp.int32),
            actions=jnp.full(4, -1, jnp.int32),
            chips=jnp.zeros(2, jnp.int32),
            latest=jnp.zeros(2, jnp.int32),
            coins=jax.random.uniform(coin_key, (self.rounds, 4)),
        )

    def first(self, state: KuhnPokerState) -> jax.Array:
        """The seat that opens this hand, i32[]."""
        return (self.opener + state.round) % 2

    def hand(self, state: KuhnPokerState) -> rules.State:
        """This hand, with its opener as the rules' seat 0."""
        last = jnp.minimum(state.round, self.rounds - 1)
        cards = state.cards[last]
        cards = jnp.where(self.first(state) == 0, cards, cards[::-1])
        return rules.State(cards, state.actions)

    def at(self, hand: rules.State) -> KuhnPokerState:
        """The state of a game's first hand in which seat 0 is the opener."""
        return KuhnPokerState(
            **opening(),
            round=jnp.zeros((), jnp.int32),
            cards=jnp.broadcast_to(hand.cards, (self.rounds, 2)),
            actions=hand.actions,
            chips=jnp.zeros(2, jnp.int32),
            latest=jnp.zeros(2, jnp.int32),
            coins=jnp.zeros((self.rounds, 4)),
        )

    def mover(self, state: KuhnPokerState, params: KuhnPokerParams) -> jax.Array:
        """The opener, then the other."""
        return (self.first(state) + rules.num_acted(self.hand(state))) % 2

    def transition(
        self, key: jax.Array, state: KuhnPokerState, action: jax.Array, params: KuhnPokerParams
    ) -> tuple[KuhnPokerState, jax.Array]:
        """Pass or bet; a hand that is over is paid out and the next one begins."""
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
        """What decides who has won, i32[2]."""
        return state.latest if self.reward == "last_round" else state.chips

    def observe_as(
        self, state: KuhnPokerState, agent: jax.Array, params: KuhnPokerParams
    ) -> jax.Array:
        """One's own card and what was done."""
        last = jnp.minimum(state.round, self.rounds - 1)
        taken = state.actions[:3, None] == jnp.arange(2)
        facts = [
            jax.nn.one_hot(state.cards[last, agent], 3),
            taken.reshape(-1).astype(jnp.float32),
            (self.first(state) == agent)[None].astype(jnp.float32),
            (state.chips[agent] / self.rounds)[None],
            ((self.rounds - state.round) / self.rounds)[None],
        ]
        return jnp.concatenate(facts)

    def is_over(self, state: KuhnPokerState, params: KuhnPokerParams) -> jax.Array:
        """All hands are played."""
        return state.round >= self.rounds

    def won(self, state: KuhnPokerState, params: KuhnPokerParams) -> jax.Array:
        """Who has won more chips, in all or in the last hand."""
        return self._counts(state) > 0

    def expert(self, state: KuhnPokerState, params: KuhnPokerParams) -> jax.Array:
        """Bets with the probability of an equilibrium."""
        if not self.pot_grows:
            return jnp.int32(rules.BET)
        hand = self.hand(state)
        acted = rules.num_acted(hand)
        card = hand.cards[acted % 2]
        bet_before = hand.actions[jnp.maximum(acted - 1, 0)] == rules.BET
        # Chances to bet or call with J, Q, K: first; after a pass; after a bet; after pass and bet.
        chances = jnp.array([[0, 0, 0], [1 / 3, 0, 1], [0, 1 / 3, 1], [0, 1 / 3, 1]])
        row = jnp.where(acted == 0, 0, jnp.where(acted == 2, 3, jnp.where(bet_before, 2, 1)))
        last = jnp.minimum(state.round, self.rounds - 1)
        return (state.coins[last, acted] < chances[row, card]).astype(jnp.int32)

    def render(self, state: KuhnPokerState, params: KuhnPokerParams) -> str:
        """Both cards and what was done."""
        last = min(int(state.round), self.rounds - 1)
        cards = " ".join(RANKS[c] for c in state.cards[last])
        done = "".join("pb"[a] for a in state.actions if a >= 0)
        return f"hand {int(state.round) + 1} of {self.rounds}: {cards} {done or '-'}"
