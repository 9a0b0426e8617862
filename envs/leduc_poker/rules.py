"""Rules of Leduc poker for two players, as pure functions on one hand.

Six cards, two of each of three ranks (card c has rank c // 2), one private card each and one public
card between two rounds of betting. Ante 1; raises are 2 in the first round and 4 in the second, at
most two a round; seat 0 opens both. A card that pairs the public one wins, then the higher rank;
equal ranks split.

Southey et al. (2005), Bayes' bluff, https://arxiv.org/abs/1207.1411. The hands are OpenSpiel's
`leduc_poker`, information states included.
"""

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

FOLD, CALL, RAISE = 0, 1, 2
NUM_ACTIONS = 3
NUM_CARDS = 6
RAISES = (2, 4)
MAX_RAISES = 2


class State(NamedTuple):
    """A hand.

    cards: i32[3], private cards of seats 0 and 1 and the public card, which nobody sees in round 0.
    actions: i32[2, 4], by round in order of play, -1 where nobody has acted yet.
    paid: i32[2], what each seat has put into the pot.
    round: i32[], 0 or 1; 2 when the second round has been called.
    folded: i32[], the seat that gave up, -1 for none.
    """

    cards: jax.Array
    actions: jax.Array
    paid: jax.Array
    round: jax.Array
    folded: jax.Array


def initial(cards: jax.Array) -> State:
    """The hand after the deal of cards i32[3], different numbers in 0..5."""
    return State(
        jnp.asarray(cards, jnp.int32),
        jnp.full((2, 4), -1, jnp.int32),
        jnp.ones(2, jnp.int32),
        jnp.int32(0),
        jnp.int32(-1),
    )


def _of_round(state: State) -> jax.Array:
    """The actions of the current betting round, i32[4], -1 for those to come."""
    return jnp.where(state.round == 0, state.actions[0], state.actions[1])


def player(state: State) -> jax.Array:
    """The seat that acts next, i32[]."""
    return jnp.sum(_of_round(state) >= 0, dtype=jnp.int32) % 2


def terminal(state: State) -> jax.Array:
    """Whether the hand is over, bool[]."""
    return (state.folded >= 0) | (state.round == 2)


def legal(state: State) -> jax.Array:
    """Legal actions, bool[3]: `FOLD` to a raise only, `CALL` (or check), `RAISE` up to two."""
    to_call = state.paid[0] != state.paid[1]
    may_raise = jnp.sum(_of_round(state) == RAISE) < MAX_RAISES
    return jnp.stack([to_call, jnp.bool_(True), may_raise]) & ~terminal(state)


def play(state: State, action: jax.Array) -> State:
    """The hand after a legal action i32[] of the seat whose turn it is."""
    acted = jnp.sum(_of_round(state) >= 0, dtype=jnp.int32)
    seat = acted % 2
    now = (jnp.arange(2)[:, None] == state.round) & (jnp.arange(4) == acted)
    stake = jnp.max(state.paid) + jnp.where(
        action == RAISE, jnp.where(state.round == 0, *RAISES), 0
    )
    pays = (jnp.arange(2) == seat) & (action != FOLD)
    # Calling ends a round; a check that opens it does not.
    ends = (action == CALL) & (acted > 0)
    return State(
        state.cards,
        jnp.where(now, action, state.actions).astype(jnp.int32),
        jnp.where(pays, stake, state.paid).astype(jnp.int32),
        state.round + ends.astype(jnp.int32),
        jnp.where(action == FOLD, seat, state.folded).astype(jnp.int32),
    )


def strength(state: State) -> jax.Array:
    """What the two hands are worth at the showdown, i32[2]: the rank, 3 more with a pair."""
    rank = state.cards // 2
    return rank[:2] + jnp.where(rank[:2] == rank[2], 3, 0)


def returns(state: State) -> jax.Array:
    """What each seat wins, i32[2]: what the loser paid; 0 for a tie and before the end."""
    mine = strength(state)
    shown = jnp.sign(mine - mine[::-1])
    beats = jnp.where(state.folded >= 0, jnp.where(jnp.arange(2) == state.folded, -1, 1), shown)
    return jnp.where(terminal(state), beats * jnp.min(state.paid), 0).astype(jnp.int32)


def _taken(actions: np.ndarray) -> list[int]:
    return [int(a) for a in actions if a >= 0]


def information_state(state: State, player: int) -> str:
    """The own card, the public one once shown, and all actions."""
    public = f"[Public: {state.cards[2]}]" if state.round > 0 else ""
    rounds = "".join(
        f"[Round{i + 1}: {' '.join(map(str, _taken(state.actions[i])))}]" for i in range(2)
    )
    return (
        f"[Observer: {player}][Private: {state.cards[player]}][Round {state.round + 1}]"
        f"[Player: {player}][Pot: {state.paid.sum()}]"
        f"[Money: {100 - state.paid[0]} {100 - state.paid[1]}]{public}{rounds}"
    )


def history(state: State) -> tuple[int, ...]:
    """Private cards, actions of round 0, the public card, actions of round 1."""
    first, second, public = state.cards.tolist()
    shown = [public] if state.round > 0 else []
    return first, second, *_taken(state.actions[0]), *shown, *_taken(state.actions[1])


def deals() -> State:
    """All 120 ordered deals of two private cards and the public one, with a leading axis."""
    return jax.vmap(initial)(np.array(list(itertools.permutations(range(NUM_CARDS), 3))))
