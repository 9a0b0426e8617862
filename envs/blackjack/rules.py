"""Rules of blackjack with an infinite deck, as pure functions on one hand.

A hand is its `total` i32[], aces counting 1, and whether it has an `ace` bool[]. Read in gym-cards
(`blackjack.py`, after gymnasium's): deck, usable ace, dealer's rule. The optimal play is ours.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

# Probability of a card of value 1..10; ten, jack, queen and king all count 10.
DECK = np.array([1.0] * 9 + [4.0]) / 13
# The dealer's final totals; 22 stands for every bust.
DEALER_TOTALS = np.arange(17, 23)
# The largest number of cards that a dealer can need: six aces (soft 16), a six (hard 12), five aces
# (17).
DEALER_CARDS = 12


class Hand(NamedTuple):
    """total i32[], aces counting 1; ace bool[]."""

    total: jax.Array
    ace: jax.Array


def add(hand: Hand, card: jax.Array) -> Hand:
    """The hand with one more card of value 1..10."""
    return Hand(hand.total + card, hand.ace | (card == 1))


def usable_ace(hand: Hand) -> jax.Array:
    """Whether an ace counts 11 without a bust, bool[]."""
    return hand.ace & (hand.total + 10 <= 21)


def points(hand: Hand) -> jax.Array:
    """Value of the hand, i32[]; a bust above 21."""
    return hand.total + jnp.where(usable_ace(hand), 10, 0)


def card(u: jax.Array) -> jax.Array:
    """Card value i32[] for a uniform number in [0, 1)."""
    return jnp.minimum(jnp.floor(u * 13).astype(jnp.int32) + 1, 10)


def play_dealer(cards: jax.Array) -> jax.Array:
    """The dealer's final points, i32[], from the cards i32[n] on top of the deck.

    The dealer draws while below 17; the remaining cards are unused. n = `DEALER_CARDS` is always
    enough.
    """
    hand = Hand(jnp.int32(0), jnp.bool_(False))
    for i in range(cards.shape[0]):
        stays = points(hand) >= 17
        hand = jax.tree.map(
            lambda old, new, stays=stays: jnp.where(stays, old, new), hand, add(hand, cards[i])
        )
    return points(hand)


def draw_dealer(u: jax.Array, shown: jax.Array) -> jax.Array:
    """The dealer's final points given the shown card, i32[], 22 for a bust; one uniform number.

    It has the distribution of `play_dealer` on fresh cards at a tenth of its cost.
    """
    below = np.cumsum(dealer_chances(), axis=1)[:, :-1].astype(np.float32)
    row = jnp.sum(jnp.where((jnp.arange(1, 11) == shown)[:, None], below, 0.0), axis=0)
    return 17 + jnp.sum(u >= row).astype(jnp.int32)


def wins(player: jax.Array, dealer: jax.Array) -> jax.Array:
    """Whether a player that stands beats the dealer's final points, bool[]; a draw does not win."""
    return (player <= 21) & ((player > dealer) | (dealer > 21))


@functools.cache
def dealer_chances() -> np.ndarray:
    """Probabilities of the dealer's final points, f64[10, 6]: by shown card - 1 and
    `DEALER_TOTALS`."""

    @functools.cache
    def final(total: int, ace: bool) -> np.ndarray:
        value = total + 10 if ace and total <= 11 else total
        if value >= 17:
            return (np.minimum(value, 22) == DEALER_TOTALS).astype(float)
        return sum(DECK[c - 1] * final(total + c, ace or c == 1) for c in range(1, 11))

    return np.stack([final(c, c == 1) for c in range(1, 11)])


class Optimum(NamedTuple):
    """hit bool[22, 2, 10]: by total (aces counting 1), ace, shown card - 1; win_rate: per deal."""

    hit: np.ndarray
    win_rate: float


@functools.cache
def optimum() -> Optimum:
    """The policy that wins most often, by backward induction over the totals.

    V(s) = max(P(win | stand), sum_c P(c) V(s + c)); a total only grows, so one sweep is exact.
    """
    chances = dealer_chances()
    # Bust totals have value 0.
    value, hit = np.zeros((32, 2, 10)), np.zeros((22, 2, 10), bool)
    for total in range(21, 0, -1):
        for ace in (1, 0):
            held = total + 10 if ace and total <= 11 else total
            stand = chances @ ((held > DEALER_TOTALS) | (DEALER_TOTALS > 21))
            more = sum(DECK[c - 1] * value[total + c, ace | (c == 1)] for c in range(1, 11))
            hit[total, ace] = more > stand
            value[total, ace] = np.maximum(more, stand)
    deals = [
        DECK[a - 1] * DECK[b - 1] * value[a + b, int(a == 1 or b == 1)] @ DECK
        for a in range(1, 11)
        for b in range(1, 11)
    ]
    return Optimum(hit, float(np.sum(deals)))
