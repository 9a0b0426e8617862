"""Liar's dice for two seats: bids on the number of all dice that show a face, and calls.

Dice are u8[..., dice], faces 1 to 6, 0 for a lost one. A bid is a quantity and a face; both are 0
for none. If a called bid does not hold, the bidder loses a die, else the caller; all dice are
thrown anew, and the caller's opponent begins. A seat without dice loses. Actions are all bids, by
quantity from 1 to `most`, then by face; last the call.
"""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

FACES = 6
_DIGITS = 5


@struct.dataclass
class State:
    """A position.

    dice: u8[2, dice], faces of each seat's dice, 0 for lost ones. quantity, face: i32[], the
    current bid, 0 for none. seat: i32[], the current player. most: the highest quantity of a bid.
    """

    dice: jax.Array
    quantity: jax.Array
    face: jax.Array
    seat: jax.Array
    most: int = struct.field(pytree_node=False)


def throw(key: jax.Array, dice: int) -> jax.Array:
    """Faces of so many dice of each seat, u8[2, dice]."""
    # Base-6 digits of random words, five per word, uniform to 2e-6: a tenth of the time of a
    # random number per die.
    word = jax.random.bits(key, (2, -(-dice // _DIGITS)), jnp.uint32)
    digits = []
    for _ in range(_DIGITS):
        quotient = word // FACES
        digits.append((word - FACES * quotient).astype(jnp.uint8))
        word = quotient
    return 1 + jnp.stack(digits, axis=-1).reshape(2, -1)[:, :dice]


def initial(dice: jax.Array, most: int) -> State:
    """The first round with dice u8[2, dice]; seat 0 begins."""
    zero = jnp.zeros((), jnp.int32)
    return State(jnp.asarray(dice, jnp.uint8), zero, zero, zero, most)


def player(state: State) -> jax.Array:
    """The current player, i32[]."""
    return state.seat


def legal(state: State) -> jax.Array:
    """Higher bids, and a call if there is a bid, bool[most * 6 + 1]."""
    quantity, face = np.arange(1, state.most + 1)[:, None], np.arange(1, FACES + 1)
    bids = raises(state.quantity, state.face, quantity, face)
    return jnp.append(bids.reshape(-1), state.quantity > 0)


def play(state: State, action: jax.Array, thrown: jax.Array = 1) -> State:
    """A bid, or a call and the next round.

    thrown: u8[2, dice], the faces after a call, of all dice; those that are left have them.
    """
    calls = action == state.most * FACES
    held = holds(state.dice, state.quantity, state.face)
    loser = jnp.where(held, state.seat, 1 - state.seat)
    left = remaining(state.dice) - (calls & (jnp.arange(2) == loser))
    kept = np.arange(state.dice.shape[1]) < left[:, None]
    again = jnp.where(kept, thrown, 0).astype(jnp.uint8)
    return state.replace(
        dice=jnp.where(calls, again, state.dice),
        quantity=jnp.where(calls, 0, action // FACES + 1),
        face=jnp.where(calls, 0, action % FACES + 1),
        seat=1 - state.seat,
    )


def terminal(state: State) -> jax.Array:
    """Whether a seat has lost all dice, bool[]."""
    return jnp.any(remaining(state.dice) == 0)


def returns(state: State) -> jax.Array:
    """At the end 1 for the seat that has dice, -1 for the other, i32[2]."""
    return jnp.where(terminal(state), jnp.where(remaining(state.dice) > 0, 1, -1), 0)


def information_state(state: State, player: int) -> str:
    """The own dice, how many the other has, and the bid: `3 5 against 2, 1 of 5`."""
    own, other = state.dice[player], state.dice[1 - player]
    faces = " ".join(str(die) for die in np.sort(own) if die)
    return f"{faces} against {np.sum(other > 0)}, {state.quantity} of {state.face}"


def deals(max_quantity: int = 2) -> State:
    """All throws of one die each. With more the dice that are thrown later would be chance's."""
    if max_quantity < 1:
        raise ValueError(f"LiarsDice-v1: max_quantity={max_quantity}; expected at least 1")
    faces = np.array(list(itertools.product(range(1, FACES + 1), repeat=2)), np.uint8)
    return jax.vmap(lambda dice: initial(dice[:, None], max_quantity))(faces)


def hands_of(dice: jax.Array, seat: jax.Array) -> jax.Array:
    """The dice u8[2, dice] with those of one seat first."""
    return jnp.where(seat == 0, dice, dice[::-1])


def remaining(dice: jax.Array) -> jax.Array:
    """Number of dice left, i32[...]."""
    return jnp.sum(dice > 0, axis=-1, dtype=jnp.int32)


def counts(dice: jax.Array) -> jax.Array:
    """Number of dice that show each face, i32[..., 6]."""
    faces = np.arange(1, FACES + 1, dtype=np.uint8)
    return jnp.sum(dice[..., None, :] == faces[:, None], axis=-1, dtype=jnp.int32)


def holds(dice: jax.Array, quantity: jax.Array, face: jax.Array) -> jax.Array:
    """Whether at least `quantity` of the dice u8[2, dice] show the face, bool[]."""
    return jnp.sum(dice == face) >= quantity


def raises(
    quantity: jax.Array, face: jax.Array, new_quantity: jax.Array, new_face: jax.Array
) -> jax.Array:
    """Whether a bid may follow another: neither number decreases, and one of them increases."""
    risen = (new_quantity > quantity) | (new_face > face)
    return risen & (new_quantity >= quantity) & (new_face >= face)


@functools.cache
def _tails(dice: int) -> np.ndarray:
    """Probability f32[dice + 1, dice + 2] that at least k of n dice show a face."""
    at_least = np.zeros((dice + 1, dice + 2), np.float32)
    for n in range(dice + 1):
        exactly = [math.comb(n, k) * (FACES - 1) ** (n - k) / FACES**n for k in range(n + 1)]
        at_least[n, : n + 1] = np.cumsum(exactly[::-1])[::-1]
        at_least[n, 0] = 1
    return at_least


def likelihoods(own: jax.Array, hidden: jax.Array, quantities: int) -> jax.Array:
    """Probability that each bid holds, f32[quantities, 6], given a seat's own dice u8[dice].

    hidden: i32[], number of dice that it does not see, at most the size of `own`.
    """
    missing = np.arange(1, quantities + 1)[:, None] - counts(own)
    dice = own.shape[0]
    return jnp.asarray(_tails(dice))[hidden, jnp.clip(missing, 0, dice + 1)]
