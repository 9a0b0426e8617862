"""Ratings of players from their results against each other, by maximum likelihood.

The model of Bradley and Terry (1952), on Elo's scale: in a game between i and j the expected score
of i is

    p_ij = 1 / (1 + 10^((R_j - R_i) / 400)),

a win 1, a draw 1/2. The ratings maximise the concave function sum_ij s_ij log p_ij, s_ij the points
of i against j; only differences matter, and the mean is set to 0.

A player that lost no point has no finite maximum. Every pair with games therefore gets one
additional draw (`prior`), whose influence vanishes with the number of games. Intervals use the
Fisher information n_ij p_ij (1 - p_ij) of all pairs, within the subspace of mean 0. They treat each
game as a coin flip: with draws, which vary less, they are too wide rather than too narrow. They do
not test whether one number per player fits; for cyclic relations it does not.
"""

from statistics import NormalDist
from typing import NamedTuple

import numpy as np

_SCALE = 400 / np.log(10)


class Ratings(NamedTuple):
    """rating f64[K], mean 0, on Elo's scale; low, high f64[K], ends of its interval."""

    rating: np.ndarray
    low: np.ndarray
    high: np.ndarray


def elo(score: np.ndarray, *, prior: float = 1.0, confidence: float = 0.95) -> Ratings:
    """Ratings from points.

    score: f64[K, K], points of the row against the column; score + score.T is the number of games.
    The diagonal is ignored. prior: number of draws added to each pair.

    Raises:
      ValueError: not a square matrix of points, or players that are not connected by games.
    """
    score = np.asarray(score, np.float64)
    if score.ndim != 2 or score.shape[0] != score.shape[1] or np.any(score < 0):
        raise ValueError(f"score of shape {score.shape}: expected points [K, K], none below 0")
    if prior <= 0:
        raise ValueError(
            f"prior={prior}: expected more than 0, or undefeated players have no rating"
        )
    number = len(score)
    score = score * ~np.eye(number, dtype=bool)
    met = score + score.T > 0
    games = score + score.T + prior * met
    score = score + prior / 2 * met
    if not np.all(np.linalg.matrix_power(met + np.eye(number), number) > 0):
        raise ValueError("expected players connected by games, directly or through other players")

    def information(strength):
        """Fisher information f64[K, K], and expected points f64[K, K]."""
        chance = 1 / (1 + np.exp(strength[None] - strength[:, None]))
        weight = games * chance * (1 - chance)
        return np.diag(weight.sum(axis=1)) - weight, games * chance

    # Adding the constant direction makes the information invertible and has no other effect.
    ones = np.full((number, number), 1 / number)
    strength = np.zeros(number)
    for _ in range(100):
        curvature, expected = information(strength)
        step = np.linalg.solve(curvature + ones, (score - expected).sum(axis=1))
        # Newton's steps may overshoot far from the maximum; one unit is 174 points.
        strength = strength + step / max(1.0, float(np.abs(step).max()))
        if np.abs(step).max() < 1e-10:
            break
    strength = strength - strength.mean()
    covariance = np.linalg.inv(information(strength)[0] + ones) - ones
    width = NormalDist().inv_cdf(0.5 + confidence / 2) * np.sqrt(np.diag(covariance).clip(0))
    return Ratings(*(_SCALE * x for x in (strength, strength - width, strength + width)))
