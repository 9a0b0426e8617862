"""Which values of a setting matter, from the best runs of a sweep.

A sweep is judged by its best run, so an average over runs answers another question. Runs are drawn
from the sweep, with replacement, and the best of them is looked at: which value it has, and how
good the best one with each value is. Weights make up for unequal numbers of runs: with balanced
ones every value is drawn equally often. All but the intervals is exact, without drawing.

The balanced bootstrap of maxima is that of a study of SFT and RL for web agents (Vattikonda et al.,
2025, How to Train Your LLM Web Agent: A Statistical Diagnosis, https://arxiv.org/abs/2507.04103),
which draws as many runs as there are, 1,000 times. The exact win rates, the comparison of two bests
and the shuffles are ours.

What it cannot say. The bootstrap of a maximum is neither unbiased nor consistent: as many draws as
there are runs have the best one with probability 1 - (1 - 1/n)^n, about 0.63, and no draw is better
than it, so intervals are one-sided. A number of draws far below that of runs is safer. With one run
for each setting the luck of a seed looks like a setting's. Balanced weights favour a rare value
that was lucky once, which shuffles tell.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from agentrl.evaluation.statistics import Interval

# Fewer runs of a value than this say little.
FEW = 5


class Standing(NamedTuple):
    """A value of a setting. runs: that have it. wins: probability that the best of the drawn runs
    has it. best: mean of the best run with it, over the draws that have one, and its interval."""

    value: Any
    runs: int
    wins: float
    best: float
    interval: Interval


def balanced_weights(values: Sequence[Any]) -> np.ndarray:
    """Probability of each run so that all values are equally likely, f64[n].

    1 / (number of runs with the run's value), normalised.
    """
    _, index, counts = _index(values)
    return 1 / counts[index] / len(counts)


def win_rates(
    values: Sequence[Any], scores: np.ndarray, draws: int, weights: np.ndarray | None = None
) -> dict[Any, float]:
    """{value: probability that the best of `draws` runs has it}, exact, in order of appearance.

    The best scores at most s with probability F(s)^draws, F(s) the weight of the runs up to s. At
    equal scores the first drawn wins, so that such runs share by weight. Runs are drawn with
    replacement, by `weights` (default: balanced).

    Raises:
      ValueError: not one value for each score, scores that are not finite, or no draws.
    """
    scores = _checked(values, scores, draws)
    known, index, _ = _index(values)
    weights = balanced_weights(values) if weights is None else weights / np.sum(weights)
    levels, of_run = np.unique(scores, return_inverse=True)
    at_level = np.zeros((len(levels), len(known)))
    np.add.at(at_level, (of_run, index), weights)
    share = at_level / at_level.sum(axis=1, keepdims=True)
    rates = _best(at_level.sum(axis=1), draws) @ share
    return dict(zip(known, map(float, rates), strict=True))


def probability_of_better_best(x: np.ndarray, y: np.ndarray, draws: int) -> float:
    """Probability that the best of `draws` runs of X is above the best of as many of Y, exact.

    Runs are drawn with replacement, each equally likely; equal bests count one half. x, y: f64[n],
    f64[m]. With one draw it is the probability of improvement.
    """
    x, y = (_checked(range(len(s)), s, draws) for s in (x, y))
    levels = np.unique(np.concatenate([x, y]))
    of_x, of_y = (_best((s[:, None] == levels).mean(axis=0), draws) for s in (x, y))
    return float(np.sum(of_x * (np.cumsum(of_y) - of_y / 2)))


def standings(
    values: Sequence[Any],
    scores: np.ndarray,
    draws: int,
    *,
    samples: int = 1000,
    seed: int = 0,
    confidence: float = 0.95,
) -> list[Standing]:
    """All values by the balanced bootstrap of maxima, the highest win rate first.

    A draw in which a value does not occur says nothing of its best run and is left out of its mean
    and interval; (nan, nan) if none has it. Percentiles are the interval. Raises as `win_rates`.
    """
    scores = _checked(values, scores, draws)
    known, index, counts = _index(values)
    rates = win_rates(values, scores, draws)
    rng = np.random.default_rng(seed)
    choice = rng.choice(len(scores), size=(samples, draws), p=balanced_weights(values))
    tail, found = 50 * (1 - confidence), []
    for i, value in enumerate(known):
        best = np.where(index[choice] == i, scores[choice], -np.inf).max(axis=1)
        best = best[np.isfinite(best)]
        ends = np.percentile(best, (tail, 100 - tail)) if best.size else (np.nan, np.nan)
        mean = float(best.mean()) if best.size else float("nan")
        interval = Interval(*map(float, ends))
        found.append(Standing(value, int(counts[i]), rates[value], mean, interval))
    return sorted(found, key=lambda one: -one.wins)


def chance(
    values: Sequence[Any],
    scores: np.ndarray,
    draws: int,
    *,
    blocks: Sequence[Any] | None = None,
    shuffles: int = 1000,
    seed: int = 0,
) -> float:
    """Share of shuffles of the values over the runs in which some value wins as often as the
    winner, the unshuffled one counted among them: the p-value of a permutation test.

    blocks: of each run; values are shuffled within a block, such as the runs that have all other
    settings in common. None: over all runs, which are then taken to be independent.
    """
    rng, codes = np.random.default_rng(seed), _index(values)[1]
    of_block = _index([None] * len(values) if blocks is None else blocks)[1]
    places = [np.flatnonzero(of_block == block) for block in range(of_block.max() + 1)]
    highest, as_high = max(win_rates(codes.tolist(), scores, draws).values()), 0
    for _ in range(shuffles):
        for place in places:
            codes[place] = rng.permutation(codes[place])
        rates = win_rates(codes.tolist(), scores, draws)
        as_high += max(rates.values()) >= highest - 1e-12
    return (1 + as_high) / (1 + shuffles)


def _best(weight: np.ndarray, draws: int) -> np.ndarray:
    """Distribution of the highest of so many draws from levels in ascending order."""
    up_to = np.concatenate([[0.0], np.cumsum(weight)])
    return np.diff((up_to / up_to[-1]) ** draws)


def _index(values: Sequence[Any]) -> tuple[list[Any], np.ndarray, np.ndarray]:
    """(values in order of appearance, the number of each run's, runs of each)."""
    known = list(dict.fromkeys(values))
    place = {value: i for i, value in enumerate(known)}
    index = np.array([place[value] for value in values])
    return known, index, np.bincount(index, minlength=len(known))


def _checked(values: Sequence[Any], scores: np.ndarray, draws: int) -> np.ndarray:
    scores = np.asarray(scores, np.float64)
    if scores.shape != (len(values),) or not scores.size or not np.isfinite(scores).all():
        raise ValueError(
            f"{len(values)} values and scores of shape {list(scores.shape)}: expected one finite "
            "score for each of one run or more"
        )
    if draws < 1:
        raise ValueError(f"{draws} draws: expected one or more")
    return scores
