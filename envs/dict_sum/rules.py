"""Running sums over a dictionary: its words, and three ways to count right answers.

Read in the reference's code: the three accuracies, and that an error is a uniform number added to
an answer of the history. Deviations: an error is never 0, and a missing answer is never right for
its step (there it is right where the value is 0).
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

# Five letters each, as in the reference; the first two differ.
WORDS = (
    *("apple", "grape", "stone", "cloud", "river", "tiger", "piano", "lemon"),
    *("horse", "bread", "chair", "mouse", "ocean", "queen", "snake", "wheat"),
)
ACCURACIES = ("index", "prefix", "step")


class Judged(NamedTuple):
    """bool[..., T] each: the answer is the true sum; it and all before it are; it is the answer
    before it in the history, plus the value of its turn."""

    index: jax.Array
    prefix: jax.Array
    step: jax.Array


def judge(values: jax.Array, answers: jax.Array, history: jax.Array | None = None) -> Judged:
    """Judges answers [..., T] to turns with these values [..., T].

    history: [..., T], the answers that later turns were shown; default: `answers`.
    """
    history = answers if history is None else history
    index = answers == jnp.cumsum(values, axis=-1)
    before = jnp.zeros_like(history).at[..., 1:].set(history[..., :-1])
    prefix = jnp.cumprod(index.astype(jnp.int32), axis=-1) == 1
    return Judged(index, prefix, answers == before + values)


def draw_errors(key: jax.Array, turns: int, rate: jax.Array, size: jax.Array) -> jax.Array:
    """What is added to the answers of a filled history, i32[turns]: with probability `rate` a
    uniform number of -size to size without 0, else 0."""
    wrong_key, size_key, sign_key = jax.random.split(key, 3)
    wrong = jax.random.bernoulli(wrong_key, rate, (turns,))
    error = jax.random.randint(size_key, (turns,), 1, size + 1)
    sign = jnp.where(jax.random.bernoulli(sign_key, shape=(turns,)), 1, -1)
    return jnp.where(wrong, error * sign, 0)


def horizon(prefix_accuracy: np.ndarray, share: float = 0.5) -> int:
    """First turn, from 1, at which the prefix accuracy [T] is below `share`; T + 1 if at none."""
    below = np.flatnonzero(np.asarray(prefix_accuracy) < share)
    return int(below[0]) + 1 if below.size else len(prefix_accuracy) + 1


def independent_horizon(step_accuracy: float, share: float = 0.5) -> float:
    """Turns after which p^t = share: errors that are independent and never made good; 0 of p = 0,
    infinite of p = 1."""
    if step_accuracy in (0.0, 1.0):
        return math.inf if step_accuracy else 0.0
    return math.log(share) / math.log(step_accuracy)
