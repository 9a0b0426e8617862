"""Several hands of Kuhn poker as one game of N seats, in the form of its `rules`."""

import jax
import jax.numpy as jnp
from flax import struct

from envs.kuhn_poker import rules


@struct.dataclass
class State:
    """A match of dealt hands.

    round: i32[], hands finished. cards: i32[rounds, N], the card of each seat in each hand.
    actions: i32[2N], of this hand in order. chips, latest: i32[N], won so far, and in the last
    finished hand. opener, pot_grows, reward: options of `KuhnPoker`.
    """

    round: jax.Array
    cards: jax.Array
    actions: jax.Array
    chips: jax.Array
    latest: jax.Array
    opener: int = struct.field(pytree_node=False)
    pot_grows: bool = struct.field(pytree_node=False)
    reward: str = struct.field(pytree_node=False)


def initial(cards: jax.Array, opener: int, pot_grows: bool, reward: str) -> State:
    """The match in which cards i32[rounds, N] were dealt; `opener` opens the first hand."""
    none = jnp.zeros(cards.shape[1], jnp.int32)
    played, actions = jnp.zeros((), jnp.int32), jnp.full(2 * cards.shape[1], -1, jnp.int32)
    return State(played, cards, actions, none, none, opener, pot_grows, reward)


def first(state: State) -> jax.Array:
    """The seat that opens this hand, i32[]; the next one opens the next."""
    return (state.opener + state.round) % state.cards.shape[1]


def of_hand(state: State, values: jax.Array) -> jax.Array:
    """Entry of i32[rounds, ...] for this hand, or for the last one when all are over."""
    rounds = values.shape[0]
    return values[0] if rounds == 1 else values[jnp.minimum(state.round, rounds - 1)]


def hand(state: State) -> rules.State:
    """This hand, with its opener as seat 0 of the rules."""
    cards = of_hand(state, state.cards)
    return rules.State(jnp.roll(cards, -first(state)), state.actions)


def player(state: State) -> jax.Array:
    """The seat that acts next, i32[]."""
    return (first(state) + rules.num_acted(hand(state))) % state.cards.shape[1]


def legal(state: State) -> jax.Array:
    """Both actions, bool[2]."""
    return jnp.ones(rules.NUM_ACTIONS, bool)


def play(state: State, action: jax.Array) -> State:
    """Pass or bet; a finished hand is paid out and the next one begins."""
    after = rules.play(hand(state), action)
    done = rules.terminal(after)
    won = rules.returns(after)
    won = won if state.pot_grows else jnp.sign(won)
    won = jnp.roll(won, first(state))
    return state.replace(
        round=state.round + done,
        actions=jnp.where(done, -1, after.actions),
        chips=state.chips + won,
        latest=jnp.where(done, won, state.latest),
    )


def terminal(state: State) -> jax.Array:
    """Whether all hands are over, bool[]."""
    return state.round >= state.cards.shape[0]


def returns(state: State) -> jax.Array:
    """Chips won so far, i32[N]; or, at the end, 1 for the winner of the match and -1 for the
    other, who are compared by all chips ("most_chips") or the last hand's ("last_round")."""
    if state.reward == "chips":
        return state.chips
    counts = state.latest if state.reward == "last_round" else state.chips
    return jnp.where(terminal(state), jnp.sign(counts), 0)


def information_state(state: State, player: int) -> str:
    """What is known in this hand, the hands before it and the own chips: `2: 1pb +3`."""
    known = rules.information_state(rules.State(of_hand(state, state.cards), state.actions), player)
    return f"{state.round}: {known} {state.chips[player]:+d}"
