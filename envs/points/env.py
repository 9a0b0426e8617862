"""EZPoints-v1 and Points24-v1: write a formula over the cards with a given value, token by token.

Source: gym-cards, replayed against episodes recorded in verl-agent's copy. Read: RL4VLM's original
of both, where a false number costs 1 and takes a place in the formula and a false formula costs 1;
a later copy of Points24 with the rules used here. That EZPoints, too, truncates without a cost is
reconstructed: no recorded formula is so long.
"""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.environment import Environment, EnvParams, EnvState
from envs.points import formula as rules
from envs.points import rules as points

# Code after those of `envs.points.formula`: ends a formula in the expert's plans.
_END = rules.NUM_CODES
_TOKENS = (" ", *map(str, range(1, 11)), *rules.SYMBOLS)


@struct.dataclass
class PointsState(EnvState):
    """State of a card sum.

    cards u8[cards]: values 1..10; formula u8[capacity]: tokens, padded with 0; length i32[]: tokens
    so far, one more than the capacity after a token too many; finished, won bool[].
    """

    cards: jax.Array
    formula: jax.Array
    length: jax.Array
    finished: jax.Array
    won: jax.Array


@dataclasses.dataclass(frozen=True)
class _Points(Environment):
    """Shared by both games; each defines its cards, symbols, target and capacity."""

    num_codes: ClassVar[int] = rules.NUM_CODES
    wordings: ClassVar[str] = "envs.points.words"
    num_cards: ClassVar[int]
    target: ClassVar[int]
    # Number of tokens of a formula; the next one truncates the episode.
    capacity: ClassVar[int]
    symbols: ClassVar[str]

    @property
    def action_names(self) -> tuple[str, ...]:
        """The numbers 1 to 10, the symbols, and =, which submits the formula."""
        return (*map(str, range(1, 11)), *self.symbols, "=")

    @property
    def _codes(self) -> np.ndarray:
        """The observation's code for the token that each action writes, u8[num_actions]."""
        symbols = [rules.SYMBOLS[symbol] for symbol in self.symbols]
        return np.array([*range(1, 11), *symbols, _END], np.uint8)

    def _deal(self, key: jax.Array) -> jax.Array:
        raise NotImplementedError

    def _plans(self, state: PointsState) -> jax.Array:
        """Winning formulas, preferred ones first, u8[plans, length]; a row of zeros is none."""
        raise NotImplementedError

    def initial(self, key: jax.Array, params: EnvParams) -> PointsState:
        """Cards on the table and an empty formula."""
        return PointsState(
            time=jnp.zeros((), jnp.int32),
            cards=self._deal(key),
            formula=jnp.zeros(self.capacity, jnp.uint8),
            length=jnp.zeros((), jnp.int32),
            finished=jnp.zeros((), bool),
            won=jnp.zeros((), bool),
        )

    def transition(
        self, key: jax.Array, state: PointsState, action: jax.Array, params: EnvParams
    ) -> tuple[PointsState, jax.Array]:
        """Appends a token, or judges the formula."""
        del key, params
        full = state.length >= self.capacity
        ends = (action == self.num_actions - 1) & ~full
        code = jnp.sum(jnp.where(jnp.arange(self.num_actions) == action, self._codes, 0))
        at = (jnp.arange(self.capacity) == state.length) & ~ends
        won = ends & rules.equals(state.formula, self.num_cards, self.target)
        state = state.replace(
            formula=jnp.where(at, code.astype(jnp.uint8), state.formula),
            length=state.length + ~ends,
            finished=ends,
            won=won,
        )
        return state, jnp.where(won, 10.0, 0.0)

    def legal(self, state: PointsState, params: EnvParams) -> jax.Array:
        """Symbols always; numbers on unused cards; all tokens once the formula is full."""
        numbers = jnp.arange(1, 11, dtype=jnp.uint8)[:, None]
        on_cards = jnp.sum(state.cards == numbers, 1)
        used = jnp.sum(state.formula == numbers, 1)
        available = (on_cards > used) | (state.length >= self.capacity)
        return jnp.concatenate([available, jnp.ones(self.num_actions - 10, bool)])

    def observe(self, state: PointsState, params: EnvParams) -> jax.Array:
        return jnp.concatenate([state.cards, state.formula])

    def is_terminated(self, state: PointsState, params: EnvParams) -> jax.Array:
        return state.finished

    def is_truncated(self, state: PointsState, params: EnvParams) -> jax.Array:
        """At the time limit, or one token past the capacity, which the reference counts as
        truncation."""
        return super().is_truncated(state, params) | (state.length > self.capacity)

    def is_success(self, state: PointsState, params: EnvParams) -> jax.Array:
        """The formula had the target's value."""
        return state.won

    def expert(self, state: PointsState, params: EnvParams) -> jax.Array:
        """Next token of the first plan that starts with the formula so far; if there is none, =."""
        plans = self._plans(state)
        plans = jnp.pad(plans, ((0, 0), (0, self.capacity - plans.shape[1])))
        place = jnp.arange(self.capacity)
        begun = jnp.all((place >= state.length) | (plans == state.formula), 1) & plans.any(1)
        tokens = jnp.sum(jnp.where(place == state.length, plans, 0), 1)
        token = tokens[jnp.argmax(begun)]
        token = jnp.where(jnp.any(begun) & (token != 0), token, _END)
        return jnp.argmax(self._codes == token).astype(jnp.int32)

    def render(self, state: PointsState, params: EnvParams) -> str:
        """For example `cards 4 8 | formula 4 +`."""
        cards = " ".join(str(card) for card in np.asarray(state.cards))
        tokens = " ".join(_TOKENS[code] for code in np.asarray(state.formula) if code)
        return f"cards {cards} | formula {tokens}".rstrip()


@dataclasses.dataclass(frozen=True)
class EZPoints(_Points):
    """Two cards, a formula of value 12 with + and *.

    Observation: uint8[8], the two cards (1..10), then up to 6 tokens: 0 none, 1..10 the number, 11
    +, 13 *. Actions: 0..9 append the numbers 1..10, 10 appends +, 11 *, 12 (=) submits the formula.
    A number that is not on an unused card is illegal: only time passes. Formulas are read as
    in `envs.points.formula`. Reward: 10 for = on a formula of value 12 that uses both cards, else
    0. Ends with =. Limits: 8 steps (verl-agent's turns); a token after the sixth, including =, is
    dropped and truncates. Task: a sum or a product of 12, see `points.deal_ez`.

    Expert: card by card with the operator that gives 12; optimal from every prefix of such a
    formula.
    """

    num_cards: ClassVar[int] = 2
    target: ClassVar[int] = 12
    capacity: ClassVar[int] = 6
    symbols: ClassVar[str] = "+*"
    # verl-agent's limit of 8 turns.
    default_params: ClassVar[EnvParams] = EnvParams(max_steps_in_episode=8)

    def _deal(self, key: jax.Array) -> jax.Array:
        return points.deal_ez(key)

    def _plans(self, state: PointsState) -> jax.Array:
        first, second = state.cards
        sums = first + second == self.target
        products = first * second == self.target
        plans = [
            jnp.where(works, jnp.stack([a, jnp.uint8(symbol), b]), 0)
            for works, symbol in ((sums, rules.PLUS), (products, rules.TIMES))
            for a, b in ((first, second), (second, first))
        ]
        return jnp.stack(plans)


@dataclasses.dataclass(frozen=True)
class Points24(_Points):
    """Four cards, a formula of value 24 with + - * / and parentheses.

    Observation: uint8[25], the four cards (1..10), then up to 21 tokens: 0 none, 1..10 the number,
    11 to 16 + - * / ( ). Actions: 0..9 append the numbers 1..10, 10..15 append + - * / ( ), 16 (=)
    submits the formula. A number that is not on an unused card is illegal: only time passes.
    Formulas are read as in `envs.points.formula`, so powers and joined digits are possible. Reward:
    10 for = on a formula that uses all cards and has the value 24, else 0. Ends with =. Limits: 30
    steps (ours; gym-cards registers 300); a token after the twenty-first, including =, is dropped
    and truncates. Task: four ranks 1..13, those above 10 count as 10. 73.1 % of the deals (566 of
    the 715 sets of cards) have a formula without tricks; `solvable_only` draws among these.

    Expert: the shortest formula in + - * / and parentheses, followed from each of its prefixes;
    from other formulas, and for unsolvable deals, it gives up with =.
    """

    solvable_only: bool = False

    num_cards: ClassVar[int] = 4
    target: ClassVar[int] = 24
    capacity: ClassVar[int] = 21
    symbols: ClassVar[str] = "+-*/()"
    # Time for the longest formula and some illegal tokens.
    default_params: ClassVar[EnvParams] = EnvParams(max_steps_in_episode=30)

    def _deal(self, key: jax.Array) -> jax.Array:
        return points.deal_24(key, self.solvable_only)

    def _plans(self, state: PointsState) -> jax.Array:
        a, b, c, d = state.cards.astype(jnp.int32) - 1
        return jnp.asarray(points.solutions())[a, b, c, d][None]
