"""Hanabi-v1: cooperative fireworks; each of two players sees only the other's cards."""

import dataclasses
import types
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.game import GameParams, GameState, TurnGame, opening
from envs.hanabi import rules
from envs.hanabi.rules import Table

COLOURS = "RYGWB"

# MARSHAL's second setting, and the standard game: `envs.make("Hanabi-v1", **hanabi.FULL)`.
SIMPLE = types.MappingProxyType({"colours": 3, "ranks": 2, "hand": 5, "hints": 8})
FULL = types.MappingProxyType({"colours": 5, "ranks": 5, "hand": 5, "hints": 8})


# The expert's value of a hint about a playable card; other hints count the new information.
TELLING = 10


@struct.dataclass
class HanabiState(GameState):
    """State of one game.

    table: hands, stacks and tokens. seat: i32[], the current player. last: i32[], the last action +
    1, 0 before the first. card: i32[], the card that it played or discarded, -1 for none. fitted:
    bool[], whether that card was added to a stack.
    """

    table: Table
    seat: jax.Array
    last: jax.Array
    card: jax.Array
    fitted: jax.Array


@struct.dataclass
class HanabiParams(GameParams):
    """keeps_points: whether the points stay when the last life is lost.

    An illegal action costs both seats the same. (MARSHAL subtracts the points and 10 more from the
    offender, at the first one.)
    """

    illegal_other_reward: float = -1.0
    keeps_points: bool = False


@dataclasses.dataclass(frozen=True)
class Hanabi(TurnGame):
    """Two seats play cards in turn, seat 0 first; each sees only the other's hand.

    C `colours` and R `ranks`, `copies` of each rank (None: 3 of the lowest, 1 of the highest, 2 of
    those between), H cards per `hand`, `hints` and `lives` at the start (hints never exceed their
    start). The defaults are MARSHAL's mini game; `SIMPLE` (3 x 2, hand 5, 8 hints, 3 lives) and
    `FULL` (5 x 5, the same) are options of larger ones. Rules: `envs.hanabi.rules.move`.

    Observation: uint8 codes. [hint tokens, lives, cards in the deck, turns left once it is empty (2
    before)], the height of the C stacks, how many of each of the C R cards are discarded; of each
    own card, oldest first, C + R bits of the colours and ranks that hints leave possible (0 where
    there is no card); of each card of the other's hand its colour + 1 and rank + 1, and the bits
    that the other knows of it; the last action + 1, the colour + 1 and rank + 1 of the card that it
    played or discarded, and whether it was added to a stack.

    Actions, in the order of the Hanabi Learning Environment: discard card 1 to H, play card 1 to H,
    hint each colour, hint each rank. Illegal (`GameParams`): discarding with all hint tokens left,
    hinting without a token or about a property that no card of the other has, naming a missing
    card.

    Reward, the same for both seats: 1 for each card added to a stack; losing the last life takes
    all points back (unless `keeps_points`). Ends at the last life, when all stacks are complete
    (success), or when each seat has had a turn after the deck became empty.

    Expert: without conventions. Plays a card that is certainly playable, or the likeliest one if
    the deck is empty and a life can be spared; else gives a hint that identifies a playable card,
    or any informative hint; else discards the least useful card. 3.1 points of 4 in the mini game,
    3.4 of 6 in the simple one, 18 of 25 in the full one; random players 1.4, 1.6, 0.

    Source: OpenSpiel 2.0.2's hanabi (the Hanabi Learning Environment), whose recorded games are
    replayed; settings and words of MARSHAL (read).
    """

    colours: int = 2
    ranks: int = 2
    hand: int = 3
    hints: int = 3
    lives: int = 3
    copies: tuple[int, ...] | None = None

    cooperative: ClassVar[bool] = True
    wordings: ClassVar[str] = "envs.hanabi.words"

    def __post_init__(self):
        if not 1 <= self.colours <= len(COLOURS) or not 2 <= self.ranks <= 5:
            raise ValueError(
                f"colours {self.colours}, ranks {self.ranks}: expected 1 to 5 and 2 to 5"
            )
        if not 1 <= self.hand < TELLING or self.hints < 1 or self.lives < 1:
            raise ValueError(
                f"hand {self.hand}, hints {self.hints}, lives {self.lives}: expected 1 to 9 and 1 "
                "or more"
            )
        if self.copies is not None and (len(self.copies) != self.ranks or min(self.copies) < 1):
            raise ValueError(f"copies {self.copies}: expected one number per rank ({self.ranks})")
        if not 2 * self.hand < len(self.cards) < 100:
            raise ValueError(
                f"{len(self.cards)} cards: expected fewer than 100, and more than in both hands"
            )

    @property
    def copies_of_each(self) -> np.ndarray:
        """Copies of each of the C R cards, i32[C * R]."""
        copies = self.copies or (3, *(2,) * (self.ranks - 2), 1)
        return np.tile(np.array(copies, np.int32), self.colours)

    @property
    def cards(self) -> np.ndarray:
        """The N cards of the unshuffled deck, i8[N]: colour x ranks + rank, with repetitions."""
        return np.repeat(np.arange(self.colours * self.ranks, dtype=np.int8), self.copies_of_each)

    @property
    def card_names(self) -> tuple[str, ...]:
        """Names of the cards, R1 and so on."""
        return tuple(f"{c}{r + 1}" for c in COLOURS[: self.colours] for r in range(self.ranks))

    @property
    def default_params(self) -> HanabiParams:
        """A limit that legal games never reach, with an illegal action before each move."""
        handled = len(self.cards) - 2 * self.hand + 2
        hinted = self.hints + handled + self.colours
        return HanabiParams(max_steps_in_episode=2 * (handled + hinted))

    @property
    def action_names(self) -> tuple[str, ...]:
        slots = range(1, self.hand + 1)
        shown = (*COLOURS[: self.colours], *range(1, self.ranks + 1))
        return (
            *(f"discard {slot}" for slot in slots),
            *(f"play {slot}" for slot in slots),
            *(f"hint {value}" for value in shown),
        )

    @property
    def num_codes(self) -> int:
        """One more than the number of cards or actions."""
        return max(len(self.cards), self.num_actions, self.hints, self.lives) + 1

    def initial(self, key: jax.Array, params: HanabiParams) -> HanabiState:
        deck = jax.random.permutation(key, self.cards)
        return self.dealt(deck)

    def dealt(self, deck: jax.Array) -> HanabiState:
        """The start with this deck, i8[N]: seat 0's hand, seat 1's, then the draw pile."""
        sizes = (self.colours, self.ranks, self.hand, self.hints, self.lives)
        return HanabiState(
            **opening(),
            table=rules.deal(deck, *sizes),
            seat=jnp.zeros((), jnp.int32),
            last=jnp.zeros((), jnp.int32),
            card=jnp.full((), -1, jnp.int32),
            fitted=jnp.zeros((), bool),
        )

    def mover(self, state: HanabiState, params: HanabiParams) -> jax.Array:
        return state.seat

    def legal(self, state: HanabiState, params: HanabiParams) -> jax.Array:
        """What the tokens and the hands allow."""
        return rules.legal(state.table, state.seat, self.hints)

    def transition(
        self, key: jax.Array, state: HanabiState, action: jax.Array, params: HanabiParams
    ) -> tuple[HanabiState, jax.Array]:
        del key
        # The index of an illegal action may be arbitrary; its result is not used.
        action = jnp.clip(action, 0, self.num_actions - 1)
        table, card, fits = rules.move(state.table, state.seat, action, self.hints)
        following = state.replace(
            table=table, seat=1 - state.seat, last=action + 1, card=card, fitted=fits
        )
        forfeited = (table.lives <= 0) & jnp.logical_not(params.keeps_points)
        reward = fits - jnp.where(forfeited, rules.points(table), 0)
        return following, jnp.full(2, reward, jnp.float32)

    def observe_as(self, state: HanabiState, agent: jax.Array, params: HanabiParams) -> jax.Array:
        """All but the agent's own cards and the order of the deck."""
        table, other = state.table, rules.row(state.table.hands, 1 - agent)
        head = [table.hints, table.lives, len(table.deck) - table.drawn, table.turns]
        last = [state.last, *self._codes(state.card), state.fitted]
        known = []
        for seat in (agent, 1 - agent):
            colours, ranks = rules.row(table.colours, seat), rules.row(table.ranks, seat)
            known.append((colours[:, None] >> np.arange(self.colours)) & 1)
            known.append((ranks[:, None] >> np.arange(self.ranks)) & 1)
        own = jnp.concatenate(known[:2], axis=1).reshape(-1)
        others = jnp.concatenate([jnp.stack(self._codes(other), axis=1), *known[2:]], axis=1)
        parts = [jnp.stack(head), table.stacks, table.discards, own, others.reshape(-1)]
        return jnp.concatenate([*parts, jnp.stack(last)]).astype(jnp.uint8)

    def _codes(self, card: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Colour + 1 and rank + 1, 0 for no card."""
        there = card >= 0
        colour, rank = card // self.ranks + 1, card % self.ranks + 1
        return jnp.where(there, colour, 0), jnp.where(there, rank, 0)

    def is_over(self, state: HanabiState, params: HanabiParams) -> jax.Array:
        """No lives, no turns, or nothing left to play."""
        return rules.is_over(state.table)

    def won(self, state: HanabiState, params: HanabiParams) -> jax.Array:
        return jnp.full(2, rules.points(state.table) == self.colours * self.ranks)

    def expert(self, state: HanabiState, params: HanabiParams) -> jax.Array:
        """Uses only what the current player may know."""
        table, seat, copies = state.table, state.seat, self.copies_of_each
        there = rules.row(table.hands, seat) >= 0
        chances = rules.chances(table, seat, copies)

        def mean(of_kinds: jax.Array) -> jax.Array:
            total = jnp.sum(chances, axis=1)
            return jnp.sum(chances * of_kinds, axis=1) / jnp.maximum(total, 1)

        fits = jnp.where(there, mean(rules.playable(table)), -1.0)
        # With an empty deck there is no reason to wait, if a life can be spared.
        tries = (table.drawn >= len(table.deck)) & (table.lives > 1)
        plays = jnp.max(fits) > jnp.where(tries, 0.0, 0.999)

        worth = self._worth_of_hints(table, seat)
        hint = 2 * self.hand + jnp.argmax(worth)
        # Losing the last copy of a card costs more.
        useless = rules.useless(table, copies)
        last_copy = copies - table.discards == 1
        missed = mean(jnp.where(useless, 0.0, 1.0 + 3.0 * last_copy))
        discard = jnp.argmin(jnp.where(there, missed, jnp.inf))
        hints = (jnp.max(worth) >= TELLING) | (table.hints >= self.hints)
        action = jnp.where(hints, hint, discard)
        return jnp.where(plays, self.hand + jnp.argmax(fits), action).astype(jnp.int32)

    def _worth_of_hints(self, table: Table, seat: jax.Array) -> jax.Array:
        """Values of hints, i32[C + R]: -1 if illegal, from `TELLING` on for a playable card."""
        sizes = (self.colours, self.ranks)
        playable = rules.playable(table)
        hand, *known = (rules.row(x, 1 - seat) for x in (table.hands, table.colours, table.ranks))
        after = rules.hinted(hand, *known, *sizes)
        # The receiver also sees the hinter's hand, which the hinter does not: it is not
        # counted.
        gone = table.discards + rules.stacked(table) >= self.copies_of_each

        def sure(colours: jax.Array, ranks: jax.Array) -> jax.Array:
            return ~jnp.any(rules.possible(colours, ranks, *sizes) & ~gone & ~playable, axis=-1)

        fits = jnp.any((hand[:, None] == np.arange(len(playable))) & playable, axis=1)
        news = ((after[0] != known[0]) | (after[1] != known[1])) & (hand >= 0)
        tells = fits & sure(*after) & ~sure(*known)
        shows = fits & news & rules.touched(hand, *sizes)
        worth = [jnp.sum(x, axis=1) for x in (tells, shows, news)]
        worth = 10 * TELLING * worth[0] + TELLING * worth[1] + worth[2]
        legal = rules.legal(table, seat, self.hints)
        return jnp.where(legal[2 * self.hand :], worth, -1)

    def render(self, state: HanabiState, params: HanabiParams) -> str:
        """Tokens and stacks, then the cards of both hands with the known bits."""
        table = jax.tree.map(np.asarray, state.table)
        bits = lambda mask, all_: "".join(n for i, n in enumerate(all_) if mask >> i & 1)  # noqa: E731
        stacks = " ".join(f"{c}{n}" for c, n in zip(COLOURS, table.stacks, strict=False))
        gone = " ".join(
            name for name, n in zip(self.card_names, table.discards, strict=True) for _ in range(n)
        )
        hands = [
            " ".join(
                f"{self.card_names[card]}|{bits(colours, COLOURS)}{bits(ranks, '12345')}"
                for card, colours, ranks in zip(*rows, strict=True)
                if card >= 0
            )
            for rows in zip(table.hands, table.colours, table.ranks, strict=True)
        ]
        head = f"lives {table.lives} hints {table.hints} deck {len(table.deck) - table.drawn}"
        return "\n".join([f"{head} stacks {stacks}", f"discards {gone}".rstrip(), *hands])
