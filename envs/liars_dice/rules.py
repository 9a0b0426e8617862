"""Liar's dice for two seats: bids on the number of all dice that show a face, and calls.

Dice are u8[..., dice], faces 1 to 6, 0 for a lost one. A bid is a quantity and a face; both are 0
for none.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

FACES = 6
_DIGITS = 5


def roll(key: jax.Array, remaining: jax.Array, dice: int) -> jax.Array:
    """New dice, as many as each seat has left, u8[2, dice]."""
    # Base-6 digits of random words, five per word, uniform to 2e-6: a tenth of the time of a
    # random number per die.
    word = jax.random.bits(key, (2, -(-dice // _DIGITS)), jnp.uint32)
    digits = []
    for _ in range(_DIGITS):
        quotient = word // FACES
        digits.append((word - FACES * quotient).astype(jnp.uint8))
        word = quotient
    faces = 1 + jnp.stack(digits, axis=-1).reshape(2, -1)[:, :dice]
    return jnp.where(np.arange(dice) < remaining[:, None], faces, 0)


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
