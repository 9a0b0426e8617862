"""Hanabi for two: C colours, R ranks, H cards per hand; rules of the Hanabi Learning Environment.

A card is colour * R + rank, from 0. Sets of colours and of ranks are bits.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class Table(NamedTuple):
    """The cards, tokens and hints.

    deck: i8[N], all cards in the order in which they are drawn. drawn: i32[], how many have been
    drawn. hands: i32[2, H], oldest card first, -1 for none. colours, ranks: i32[2, H], sets that
    the hints allow for each card, 0 for no card. stacks: i32[C], cards on each stack.
    discards: i32[C * R], how many of each card. hints, lives: i32[], tokens. turns: i32[], turns
    left once the deck is empty.
    """

    deck: jax.Array
    drawn: jax.Array
    hands: jax.Array
    colours: jax.Array
    ranks: jax.Array
    stacks: jax.Array
    discards: jax.Array
    hints: jax.Array
    lives: jax.Array
    turns: jax.Array


class Move(NamedTuple):
    """Result of an action: card i32[] played or discarded, -1 for a hint; fits bool[]."""

    table: Table
    card: jax.Array
    fits: jax.Array


def deal(deck: jax.Array, colours: int, ranks: int, hand: int, hints: int, lives: int) -> Table:
    """Seat 0 draws its hand, then seat 1."""
    full = lambda value: jnp.full((2, hand), value, jnp.int32)  # noqa: E731
    return Table(
        deck=deck,
        drawn=jnp.full((), 2 * hand, jnp.int32),
        hands=deck[: 2 * hand].reshape(2, hand).astype(jnp.int32),
        colours=full(2**colours - 1),
        ranks=full(2**ranks - 1),
        stacks=jnp.zeros(colours, jnp.int32),
        discards=jnp.zeros(colours * ranks, jnp.int32),
        hints=jnp.full((), hints, jnp.int32),
        lives=jnp.full((), lives, jnp.int32),
        turns=jnp.full((), 2, jnp.int32),
    )


def row(rows: jax.Array, seat: jax.Array) -> jax.Array:
    """rows[seat] of i32[2, H], without a gather."""
    return jnp.where(seat == 0, rows[0], rows[1])


def touched(hand: jax.Array, colours: int, ranks: int) -> jax.Array:
    """Cards that each hint shows, colours before ranks: bool[C + R, H]."""
    there = hand >= 0
    same_colour = (hand // ranks == np.arange(colours)[:, None]) & there
    same_rank = (hand % ranks == np.arange(ranks)[:, None]) & there
    return jnp.concatenate([same_colour, same_rank])


def hinted(
    hand: jax.Array, known_colours: jax.Array, known_ranks: jax.Array, colours: int, ranks: int
) -> tuple[jax.Array, jax.Array]:
    """Sets that each hint would allow: colours and ranks, i32[C + R, H] each."""
    shown = touched(hand, colours, ranks)
    colour_bits, rank_bits = 1 << np.arange(colours)[:, None], 1 << np.arange(ranks)[:, None]
    by_colour = jnp.where(shown[:colours], colour_bits, ~colour_bits) & known_colours
    by_rank = jnp.where(shown[colours:], rank_bits, ~rank_bits) & known_ranks
    return (
        jnp.concatenate([by_colour, jnp.broadcast_to(known_colours, (ranks, len(hand)))]),
        jnp.concatenate([jnp.broadcast_to(known_ranks, (colours, len(hand))), by_rank]),
    )


def legal(table: Table, seat: jax.Array, most_hints: int) -> jax.Array:
    """Legal actions, bool[2 H + C + R]: discard and play each card, hint each colour and rank.

    Discarding is illegal with all hint tokens left; a hint costs one and must show a card.
    """
    colours, ranks = _sizes(table)
    there = row(table.hands, seat) >= 0
    shown = jnp.any(touched(row(table.hands, 1 - seat), colours, ranks), axis=1)
    return jnp.concatenate([there & (table.hints < most_hints), there, shown & (table.hints > 0)])


def move(table: Table, seat: jax.Array, action: jax.Array, most_hints: int) -> Move:
    """A legal action of a seat, in the order of `legal`.

    A played card that is next on its stack is added to it; any other is discarded and costs a life.
    A discard returns a hint token, and so does the last card of a stack, unless all are left. Then
    a card is drawn, unless the game is over. Once the deck is empty each seat has one more turn.
    """
    colours, ranks = _sizes(table)
    hand_size = table.hands.shape[1]
    slots, kinds = np.arange(hand_size), np.arange(colours * ranks)
    slot = action % hand_size
    discards, plays = action < hand_size, (action >= hand_size) & (action < 2 * hand_size)
    handles = discards | plays
    hand = row(table.hands, seat)
    card = jnp.where(handles, jnp.sum(jnp.where(slots == slot, hand, 0)), -1)
    on_colour = np.arange(colours) == card // ranks
    fits = plays & (jnp.sum(jnp.where(on_colour, table.stacks, 0)) == card % ranks)
    completes = fits & (card % ranks == ranks - 1)
    regains = (discards | completes) & (table.hints < most_hints)

    stacks = table.stacks + (on_colour & fits)
    lives = table.lives - (plays & ~fits)
    goes_on = (lives > 0) & (jnp.sum(stacks) < colours * ranks)

    # Newer cards move up, the drawn one comes last.
    draws = handles & goes_on & (table.drawn < len(table.deck))
    next_ = np.arange(len(table.deck)) == table.drawn
    new = jnp.sum(jnp.where(next_, table.deck, 0), dtype=jnp.int32)
    mine = (np.arange(2) == seat)[:, None]

    def replaced(rows: jax.Array, last: jax.Array) -> jax.Array:
        moved = jnp.concatenate([rows[:, 1:], jnp.broadcast_to(last, (2, 1))], axis=1)
        return jnp.where(mine & handles & (slots >= slot), moved, rows)

    hands = replaced(table.hands, jnp.where(draws, new, -1))
    known_colours = replaced(table.colours, jnp.where(draws, 2**colours - 1, 0))
    known_ranks = replaced(table.ranks, jnp.where(draws, 2**ranks - 1, 0))
    after = hinted(
        row(table.hands, 1 - seat),
        row(table.colours, 1 - seat),
        row(table.ranks, 1 - seat),
        colours,
        ranks,
    )
    chosen = (np.arange(colours + ranks) == action - 2 * hand_size)[:, None]
    shown_colours, shown_ranks = (jnp.sum(jnp.where(chosen, rows, 0), axis=0) for rows in after)
    return Move(
        Table(
            deck=table.deck,
            drawn=table.drawn + draws,
            hands=hands,
            colours=jnp.where(handles | mine, known_colours, shown_colours),
            ranks=jnp.where(handles | mine, known_ranks, shown_ranks),
            stacks=stacks,
            discards=table.discards + ((kinds == card) & handles & ~fits),
            hints=table.hints + jnp.where(handles, regains, -1),
            lives=lives,
            turns=table.turns - (table.drawn >= len(table.deck)),
        ),
        card,
        fits,
    )


def points(table: Table) -> jax.Array:
    """The score so far, i32[]: the number of cards on all stacks."""
    return jnp.sum(table.stacks)


def is_over(table: Table) -> jax.Array:
    """No life left, no turn left, or nothing left to play."""
    complete = points(table) == len(table.discards)
    return (table.lives <= 0) | (table.turns <= 0) | complete


def _sizes(table: Table) -> tuple[int, int]:
    """Numbers of colours and ranks."""
    return len(table.stacks), len(table.discards) // len(table.stacks)


def chances(table: Table, seat: jax.Array, copies: np.ndarray) -> jax.Array:
    """Number of unseen cards of each kind that each own card can be, i32[H, C * R].

    Uses the hints and the cards that the seat sees. copies: i32[C * R] of each card in the game.
    """
    colours, ranks = _sizes(table)
    kinds = np.arange(colours * ranks)
    seen = jnp.sum(row(table.hands, 1 - seat)[:, None] == kinds, axis=0)
    unseen = copies - table.discards - stacked(table) - seen
    fits = possible(row(table.colours, seat), row(table.ranks, seat), colours, ranks)
    return jnp.where(fits, unseen, 0)


def possible(known_colours: jax.Array, known_ranks: jax.Array, colours: int, ranks: int):
    """Sets of colours and ranks i32[...] as kinds of cards, bool[..., C * R]."""
    kinds = np.arange(colours * ranks)
    by_colour = (known_colours[..., None] >> (kinds // ranks)) & 1
    by_rank = (known_ranks[..., None] >> (kinds % ranks)) & 1
    return by_colour & by_rank == 1


def _heights(table: Table) -> jax.Array:
    """Height of its stack for each kind of card, i32[C * R]."""
    colours, ranks = _sizes(table)
    return jnp.repeat(table.stacks, ranks, total_repeat_length=colours * ranks)


def stacked(table: Table) -> jax.Array:
    """Whether a card of each kind is on its stack, i32[C * R]."""
    ranks = np.arange(len(table.discards)) % _sizes(table)[1]
    return (ranks < _heights(table)).astype(jnp.int32)


def playable(table: Table) -> jax.Array:
    """Which kinds are next on their stacks, bool[C * R]."""
    return np.arange(len(table.discards)) % _sizes(table)[1] == _heights(table)


def useless(table: Table, copies: np.ndarray) -> jax.Array:
    """Which kinds can no longer be played, bool[C * R]: played, or a lower one is lost."""
    colours, ranks = _sizes(table)
    lost = ((table.discards == copies) & (stacked(table) == 0)).reshape(colours, ranks)
    blocked = jnp.cumsum(lost, axis=1) - lost > 0
    return (stacked(table) == 1) | blocked.reshape(-1)
