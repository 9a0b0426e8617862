"""Ranks and profiles of methods over tasks and seeds, in numpy.

References:
  Agarwal et al. (2021), Deep Reinforcement Learning at the Edge of the Statistical Precipice,
  https://arxiv.org/abs/2108.13264 (performance profiles; written from the paper).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata

from agentrl.evaluation.statistics import Interval


class MeanRank(NamedTuple):
    """A method's mean rank over tasks, 1 the best, and its interval."""

    value: float
    interval: Interval


def mean_ranks(
    scores: Sequence[np.ndarray],
    *,
    paired: bool = False,
    samples: int = 2000,
    seed: int = 0,
    confidence: float = 0.95,
) -> list[MeanRank]:
    """Mean rank over tasks of each method, by its mean score over runs.

    scores: one [runs, tasks] per method, the higher the better; the tasks are the same. Methods
    with equal means share the mean of their ranks. The bootstrap resamples the runs of each method
    within each task: an interval says how far the rank would move with other seeds on these tasks,
    and nothing of other tasks. Resampling adds noise to every mean, which mixes the order, so that
    intervals lie nearer the middle than the ranks: the first method's may not contain its rank.

    paired: run i of every method goes on from the same start, so the same runs of all methods are
    drawn together.

    Raises:
      ValueError: fewer than two methods, methods of different tasks, or paired ones of different
        numbers of runs.
    """
    arrays = [np.asarray(one, np.float64) for one in scores]
    if len(arrays) < 2 or len({one.shape[1:] for one in arrays}) != 1 or arrays[0].ndim != 2:
        raise ValueError(
            f"scores of shapes {[list(one.shape) for one in arrays]}: expected at least two "
            "methods, each [runs, tasks], of the same tasks"
        )
    if paired and len({len(one) for one in arrays}) > 1:
        raise ValueError(
            f"paired methods of {[len(one) for one in arrays]} runs: expected one number, run i of "
            "each from the same start"
        )
    rng = np.random.default_rng(seed)
    means = []
    for one in arrays:
        runs, tasks = one.shape
        drawn = np.random.default_rng(seed) if paired else rng
        choice = drawn.integers(runs, size=(samples, runs, tasks))
        resampled = one[choice, np.arange(tasks)].mean(axis=1)  # [samples, tasks]
        means.append(np.concatenate([one.mean(axis=0)[None], resampled]))
    ranks = rankdata(-np.stack(means), axis=0).mean(axis=2)  # [methods, 1 + samples]
    tail = 50 * (1 - confidence)
    low, high = np.percentile(ranks[:, 1:], (tail, 100 - tail), axis=1)
    return [
        MeanRank(float(ranks[m, 0]), Interval(float(low[m]), float(high[m])))
        for m in range(len(arrays))
    ]


def performance_profile(scores: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Share of runs above each threshold, f64[G]: a mean over tasks of the share of their runs.

    scores: [runs, tasks].
    """
    scores, thresholds = np.asarray(scores, np.float64), np.asarray(thresholds, np.float64)
    return (scores[:, :, None] > thresholds).mean(axis=(0, 1))
