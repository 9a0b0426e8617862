"""Prioritised fictitious self-play: probabilities of frozen opponents, and their win rates.

P(opponent) is proportional to f(x), x the learner's win rate against it: "linear" 1 - x, "hard" (1
- x)^2, "variance" x (1 - x); uniform if every f is 0. A win rate is (wins + draws / 2) / games,
where both counts decay by `decay` with each further match of the pair; it is 1/2 for a pair without
matches.

Vinyals et al. (2019), Grandmaster level in StarCraft II, https://doi.org/10.1038/s41586-019-1724-z,
and the pseudo-code published with it (decay 0.99, power 2). Reconstructed from the formulas.
"""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

WEIGHTINGS = {
    "linear": lambda x: 1 - x,
    "hard": lambda x: jnp.square(1 - x),
    "variance": lambda x: x * (1 - x),
}


def opponent_weights(
    win_rate: jax.Array, *, weighting: str = "hard", mask: jax.Array | None = None
) -> jax.Array:
    """Probability of each opponent, f32[..., B], from win rates f32[..., B].

    mask: bool[..., B], filled places of the pool (all by default); others get 0.
    """
    if weighting not in WEIGHTINGS:
        raise ValueError(f"weighting={weighting!r}: expected one of {', '.join(WEIGHTINGS)}")
    filled = jnp.ones_like(win_rate, bool) if mask is None else mask
    weight = jnp.where(filled, WEIGHTINGS[weighting](win_rate), 0.0)
    weight = jnp.where(jnp.sum(weight, -1, keepdims=True) > 0, weight, filled)
    return weight / jnp.maximum(jnp.sum(weight, -1, keepdims=True), 1e-30)


class Record(NamedTuple):
    """Decayed counts by learner and opponent: games f32[A, B], score f32[A, B] (draws count
    1/2)."""

    games: jax.Array
    score: jax.Array


def no_games(learners: int, opponents: int) -> Record:
    """The record before the first match: zeros f32[A, B]."""
    return Record(jnp.zeros((learners, opponents)), jnp.zeros((learners, opponents)))


def win_rates(record: Record) -> jax.Array:
    """Win rate of each learner against each opponent, f32[A, B]; 1/2 without matches."""
    met = record.games > 0
    return jnp.where(met, record.score / jnp.where(met, record.games, 1.0), 0.5)


def count(
    record: Record,
    learner: jax.Array,
    opponent: jax.Array,
    score: jax.Array,
    mask: jax.Array,
    *,
    decay: float = 0.99,
) -> Record:
    """The record after a batch of M matches, counted one after the other.

    A match of a pair makes its games decay * games + 1 and its score decay * score + score.

    learner, opponent: i32[M]; score: f32[M], 1 for the learner's win, 1/2 for a draw;
    mask: bool[M], False for unfinished matches.
    """
    chex.assert_equal_shape([learner, opponent, score, mask])
    shape = record.games.shape
    pair = jnp.where(mask, learner * shape[1] + opponent, shape[0] * shape[1])
    # A match decays with every later one of its pair: in a stable order by pair, those are the
    # matches between it and the end of its run.
    order = jnp.argsort(pair, stable=True)
    ordered = pair[order]
    later = jnp.searchsorted(ordered, ordered, side="right") - 1 - jnp.arange(pair.shape[0])
    weight = jnp.power(decay, later)
    size = shape[0] * shape[1]

    def total(values):
        return jax.ops.segment_sum(values, ordered, size + 1)[:size].reshape(shape)

    fade = jnp.power(decay, total(jnp.ones_like(weight)))
    return Record(
        record.games * fade + total(weight), record.score * fade + total(weight * score[order])
    )
