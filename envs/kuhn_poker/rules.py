"""Rules of Kuhn poker for N players, as pure functions on one hand.

N + 1 cards, one per seat, ranked by number; every seat pays an ante of 1. Seats act in order:
without a bet a seat may `PASS` or `BET` 1 more; after the first bet each other seat acts once more,
where `PASS` folds and `BET` calls. The highest card among the seats that bet (among all without a
bet) takes the pot.

Kuhn (1950), A simplified two-person poker; for three players Szafron, Parisotto, Rocha (2013). The
hands are OpenSpiel's `kuhn_poker`, information states included.
"""

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

PASS, BET = 0, 1
NUM_ACTIONS = 2


class State(NamedTuple):
    """cards i32[N], by seat; actions i32[2N], in order of play, -1 for none yet.

    No hand is longer than 2N - 1 actions; the last entry makes action t that of seat t mod N.
    """

    cards: jax.Array
    actions: jax.Array


def initial(cards: jax.Array) -> State:
    """The hand after the deal of cards i32[N], different numbers in 0..N."""
    cards = jnp.asarray(cards, jnp.int32)
    return State(cards, jnp.full(2 * cards.shape[0], -1, jnp.int32))


def num_acted(state: State) -> jax.Array:
    """How many actions were taken, i32[]."""
    return jnp.sum(state.actions >= 0, dtype=jnp.int32)


def player(state: State) -> jax.Array:
    """The seat that acts next, i32[]."""
    return num_acted(state) % state.cards.shape[0]


def terminal(state: State) -> jax.Array:
    """Whether the hand is over, bool[]: all passed, or all answered the first bet."""
    bets = state.actions == BET
    first = jnp.where(jnp.any(bets), jnp.argmax(bets).astype(jnp.int32), 0)
    return num_acted(state) == state.cards.shape[0] + first


def legal(state: State) -> jax.Array:
    """Legal actions, bool[2]: both until the hand is over."""
    return jnp.broadcast_to(~terminal(state), (NUM_ACTIONS,))


def play(state: State, action: jax.Array) -> State:
    """The hand after a legal action i32[] of the current player."""
    now = jnp.arange(state.actions.shape[0]) == num_acted(state)
    return state._replace(actions=jnp.where(now, action, state.actions).astype(jnp.int32))


def has_bet(state: State) -> jax.Array:
    """Which seats bet or called, bool[N]."""
    return jnp.any(state.actions.reshape(2, -1) == BET, axis=0)


def winner(state: State) -> jax.Array:
    """The seat that takes the pot of a hand that is over, i32[]."""
    bet = has_bet(state)
    return jnp.argmax(jnp.where(bet | ~jnp.any(bet), state.cards, -1)).astype(jnp.int32)


def paid(state: State) -> jax.Array:
    """What each seat has put into the pot, i32[N]."""
    return 1 + has_bet(state).astype(jnp.int32)


def returns(state: State) -> jax.Array:
    """Gain of each seat, i32[N]: the pot for the winner, minus its payments; 0 before the end."""
    stake = paid(state)
    takes = jnp.arange(stake.shape[0]) == winner(state)
    return jnp.where(terminal(state), jnp.where(takes, jnp.sum(stake), 0) - stake, 0)


def information_state(state: State, player: int) -> str:
    """The own card and the actions so far: `1pb`."""
    return f"{state.cards[player]}" + "".join("pb"[a] for a in state.actions if a >= 0)


def deals(players: int = 2) -> State:
    """All deals. ValueError for less than two players."""
    if players < 2:
        raise ValueError(f"KuhnPoker-v1: players={players}; expected at least 2")
    cards = itertools.permutations(range(players + 1), players)
    return jax.vmap(initial)(np.array(list(cards)))
