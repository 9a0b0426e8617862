"""Choosing among finished attempts, and trade-offs between cost and quality."""

import numpy as np


def select_best(score: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """The valid attempt with the highest score per task, i64[G]; the first of equals, -1 for none.

    The result is an index into the attempts as given: those that are not valid keep their places.
    (MARS-SQL's released code scores the valid ones alone, and applies the index to all.)

    Args:
      score: f32[G, N], for example a verifier's probability of Yes; not read where not valid.
      valid: bool[G, N].

    Raises:
      ValueError: arrays of other shapes.

    References:
      MARS-SQL (2025), https://arxiv.org/abs/2511.01008, code YangHaolin0526/MARS-SQL 0ece2af
      (read).
    """
    score, valid = _attempts("select_best", score, valid)
    best = np.argmax(np.where(valid, np.nan_to_num(score, nan=-np.inf), -np.inf), axis=1)
    return np.where(valid.any(axis=1), best, -1)


def self_consistency(result: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """The first attempt with the commonest result per task, i64[G]; -1 where none is valid.

    Of results that are equally common the one that came first.

    Args:
      result: i64[G, N], equal numbers for equal results.
      valid: bool[G, N].

    Raises:
      ValueError: arrays of other shapes.

    References:
      Wang et al. (2022), https://arxiv.org/abs/2203.11171; MALT (https://arxiv.org/abs/2412.01928)
      votes over three chains.
    """
    result, valid = _attempts("self_consistency", result, valid)
    same = (result[:, :, None] == result[:, None, :]) & valid[:, None, :]
    votes = np.where(valid, same.sum(axis=2), 0)
    return np.where(valid.any(axis=1), np.argmax(votes, axis=1), -1)


def all_of(right: np.ndarray, number: int) -> np.ndarray:
    """pass^k: the chance that k of a task's attempts, drawn without replacement, are all right.

    C(c, k) / C(n, k) of c right ones of n, f64[G]: without bias for k independent attempts.

    Args:
      right: bool[G, N]. number: k, from 1 to N.

    Raises:
      ValueError: another shape, or k outside its range.

    References:
      Yao et al. (2024), tau-bench, https://arxiv.org/abs/2406.12045: pass^k tells whether an agent
      can be relied upon, where pass@k (`any_of`) tells whether it can be chosen from.
    """
    right = np.asarray(right, bool)
    if right.ndim != 2 or not 1 <= number <= right.shape[1]:
        raise ValueError(
            f"all_of: right has shape {right.shape} and number={number}; expected [tasks, "
            "attempts] and a number from 1 to the attempts"
        )
    count, every = right.sum(axis=1), right.shape[1]
    drawn = np.arange(number)
    return np.prod(np.maximum(count[:, None] - drawn, 0) / (every - drawn), axis=1)


def any_of(right: np.ndarray, number: int) -> np.ndarray:
    """pass@k: the chance that of k of a task's attempts any is right, as for `all_of`, f64[G]."""
    return 1.0 - all_of(~np.asarray(right, bool), number)


def selections(
    right: np.ndarray, result: np.ndarray, valid: np.ndarray, p_yes: np.ndarray
) -> dict[str, np.ndarray]:
    """Success per task f64[G] of ways to choose among its attempts, the worst first as a rule.

    "random": any attempt, in expectation, those without a result included. "self-consistency",
    "verifier": by `self_consistency` and `select_best`. "oracle": a right one if there is any.

    Args:
      right: bool[G, N]. result, valid: as for `self_consistency`.
      p_yes: f32[G, N, S], of S verifiers or draws of one, whose mean is the score.

    Raises:
      ValueError: arrays of other shapes.
    """
    right, valid = _attempts("selections", right, valid)
    score = np.asarray(p_yes, float)
    if score.ndim != 3 or score.shape[:2] != right.shape:
        raise ValueError(
            f"selections: attempts {right.shape} and p_yes {score.shape}; expected [tasks, "
            "attempts] and [tasks, attempts, samples]"
        )

    def of(chosen):
        # -1 is no attempt, which is wrong.
        return np.take_along_axis(right & valid, chosen[:, None], axis=1)[:, 0] & (chosen >= 0)

    right = np.asarray(right, bool)
    return {
        "random": (right & valid).mean(axis=1),
        "self-consistency": of(self_consistency(result, valid)) * 1.0,
        "verifier": of(select_best(score.mean(axis=2), valid)) * 1.0,
        "oracle": (right & valid).any(axis=1) * 1.0,
    }


def pareto_front(cost: np.ndarray, quality: np.ndarray) -> np.ndarray:
    """Which points no other one dominates, bool[n]: none is as cheap and as good, and better in
    one of the two. Equal points are all kept.

    cost, quality: f64[n]; less cost and more quality are better.
    """
    cost, quality = np.asarray(cost, float), np.asarray(quality, float)
    if cost.ndim != 1 or cost.shape != quality.shape:
        raise ValueError(
            f"pareto_front cost {cost.shape}, quality {quality.shape}: expected one of each per "
            "point"
        )
    as_good = (cost[None] <= cost[:, None]) & (quality[None] >= quality[:, None])
    better = (cost[None] < cost[:, None]) | (quality[None] > quality[:, None])
    return ~(as_good & better).any(axis=1)


def hypervolume(
    cost: np.ndarray, quality: np.ndarray, *, most_cost: float, least_quality: float = 0.0
) -> float:
    """Area of costs and qualities, within the two bounds, that some point dominates.

    Points beyond the bounds add nothing. Larger fronts are better ones, whatever their shape.
    """
    front = pareto_front(cost, quality)
    cost, quality = np.asarray(cost, float)[front], np.asarray(quality, float)[front]
    inside = (cost < most_cost) & (quality > least_quality)
    order = np.argsort(cost[inside], kind="stable")
    cost, quality = cost[inside][order], quality[inside][order]
    ends = np.append(cost[1:], most_cost)
    return float(np.sum((ends - cost) * (quality - least_quality)))


def _attempts(function: str, values: np.ndarray, valid: np.ndarray):
    values, valid = np.asarray(values), np.asarray(valid, bool)
    if values.ndim != 2 or values.shape != valid.shape:
        raise ValueError(
            f"{function}: attempts {values.shape} and valid {valid.shape}; expected [tasks, "
            "attempts] of both"
        )
    return values, valid
