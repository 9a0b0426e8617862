"""Maximum-Gini correlated equilibria of a normal-form game: MGCE and MGCCE.

A joint distribution sigma over joint strategies a is an epsilon-CE if no player gains more than
epsilon by a rule "play a'_p when a_p is recommended", an epsilon-CCE if none gains by always
playing a'_p:

  CE:  sum_a-p sigma(a_p, a_-p) [G_p(a'_p, a_-p) - G_p(a)] <= epsilon   for all p, a_p, a'_p,
  CCE: sum_a sigma(a) [G_p(a'_p, a_-p) - G_p(a)] <= epsilon             for all p, a'_p.

Of these the one with the largest Gini impurity 1 - sum sigma^2 is unique. A strategy may represent
r equal copies (`repeats`): the objective is sum sigma^2 / w with w the product of the copies, and a
CE's recommendations refer to copies.

Method. As sum sigma = 1, all constraints are homogeneous, C sigma <= 0 with C = A - epsilon, and in
y = sigma / sqrt(w) the solution is the projection of sqrt(w) onto the cone {y >= 0, C sqrt(w) y <=
0}, rescaled: of all unit vectors of a cone, the one closest in angle to a given vector has the
direction of its projection. The projection is max(sqrt(w) - C' alpha, 0) for the alpha >= 0 that
minimise its norm, a convex piecewise quadratic function with one variable per constraint. Each step
solves the quadratic piece exactly (non-negative least squares on the support) and does a line
search towards it, until the optimality conditions hold up to rounding. The feasible set needs no
interior, and an equilibrium in a single pure strategy is no special case.

Marris et al. (2021), https://arxiv.org/abs/2106.09435. Read and executed: OpenSpiel 2.0.2
`jpsro.py`, whose interior-point solutions differ from these by up to 3e-5. The solver is our own.
"""

import itertools
from typing import NamedTuple

import numpy as np
import scipy.optimize

_TOLERANCE = 1e-12
_MAX_STEPS = 500


class Constraints(NamedTuple):
    """gain f64[m, joint strategies] of each deviation; copies f64[m] of the strategy deviated
    from."""

    gain: np.ndarray
    copies: np.ndarray


def ce_constraints(payoff: np.ndarray, repeats: tuple[np.ndarray, ...]) -> Constraints:
    """Deviations from each recommended strategy to each other one; payoff f64[N, K_1, ..., K_N]."""
    rows, copies = [], []
    for p, game in enumerate(payoff):
        by_own = np.moveaxis(game, p, 0)
        for told, instead in itertools.permutations(range(len(by_own)), 2):
            row = np.zeros_like(by_own)
            row[told] = by_own[instead] - by_own[told]
            rows.append(np.moveaxis(row, 0, p).reshape(-1))
            copies.append(repeats[p][told])
    return _without_null(rows, copies, payoff)


def cce_constraints(payoff: np.ndarray, repeats: tuple[np.ndarray, ...]) -> Constraints:
    """Deviations to one strategy whatever the recommendation; payoff f64[N, K_1, ..., K_N]."""
    del repeats
    rows = []
    for p, game in enumerate(payoff):
        for instead in range(game.shape[p]):
            rows.append((np.take(game, [instead], axis=p) - game).reshape(-1))
    return _without_null(rows, [1.0] * len(rows), payoff)


def _without_null(rows: list, copies: list, payoff: np.ndarray) -> Constraints:
    """Drops deviations that change nothing; rounding errors are not differences in payoffs."""
    gain = np.array(rows).reshape(len(rows), payoff[0].size)
    gain = np.where(np.abs(gain) > 1e-9 * np.max(np.abs(payoff)), gain, 0.0)
    kept = np.any(gain != 0, axis=1)
    return Constraints(gain[kept], np.array(copies, float)[kept])


def max_gini(
    constraints: Constraints, weight: np.ndarray, epsilon: float
) -> tuple[np.ndarray, np.ndarray]:
    """(sigma f64[n], multipliers f64[m]): least sum sigma^2 / weight under gain sigma <= epsilon.

    ValueError if there is no such distribution.
    """
    root = np.sqrt(weight)
    cone = (constraints.gain - epsilon * constraints.copies[:, None]) * root
    norm = np.linalg.norm(cone, axis=1)
    # If a deviation always gains exactly epsilon, its constraint is void.
    used = norm > 0
    alpha = np.zeros(len(norm))
    y, alpha[used] = _project(root, cone[used] / norm[used, None])
    total = root @ y
    # total = |y|^2, and a projection is at least as long as the target's component along any
    # ray of the cone: at least min(weight), that of a pure strategy, unless the cone contains
    # only 0.
    if total < 0.5 * np.min(weight):
        raise ValueError(
            f"no equilibrium with epsilon={epsilon}: the smallest is "
            f"{smallest_epsilon(constraints):.6g}; give a larger one, or 'min'"
        )
    alpha[used] /= norm[used] * total
    return root * y / total, alpha


def _project(target: np.ndarray, cone: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Projection of the target onto {y >= 0, cone y <= 0}, and the multipliers; rows have
    norm 1."""
    alpha = np.zeros(len(cone))
    left = target - cone.T @ alpha
    for _ in range(_MAX_STEPS):
        y = np.maximum(left, 0)
        slack = -cone @ y
        if np.max(np.abs(np.minimum(alpha, slack)), initial=0.0) < _TOLERANCE * np.max(target):
            return y, alpha
        support, held = left > 0, (alpha > 0) | (slack < 0)
        piece = np.zeros(len(cone))
        piece[held], _ = scipy.optimize.nnls(
            cone[held][:, support].T, target[support], maxiter=100 * len(cone) + 100
        )
        direction = cone.T @ (piece - alpha)
        length = _line_search(left, direction)
        alpha = alpha + length * (piece - alpha)
        left = target - cone.T @ alpha
    raise RuntimeError(
        f"no projection after {_MAX_STEPS} steps: {cone.shape[0]} constraints on {cone.shape[1]} "
        "joint strategies; are the payoffs finite and of similar size?"
    )


def _line_search(left: np.ndarray, direction: np.ndarray) -> float:
    """The t in [0, 1] that minimises |max(left - t direction, 0)|."""

    def slope(t):
        return -direction @ np.maximum(left - t * direction, 0)

    if slope(1.0) <= 0:
        return 1.0
    # The slope is piecewise linear and increasing: bisect to the piece that contains its root.
    kinks = left[direction != 0] / direction[direction != 0]
    kinks = np.unique(np.concatenate([[0.0, 1.0], kinks[(kinks > 0) & (kinks < 1)]]))
    low, high = 0, len(kinks) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if slope(kinks[middle]) <= 0 else (low, middle)
    below, above = slope(kinks[low]), slope(kinks[high])
    return kinks[low] - below * (kinks[high] - kinks[low]) / (above - below)


def smallest_epsilon(constraints: Constraints) -> float:
    """The least epsilon for which a distribution exists, at most 0, by a linear program."""
    m, n = constraints.gain.shape
    if m == 0:
        return 0.0
    result = scipy.optimize.linprog(
        np.append(np.zeros(n), 1.0),
        A_ub=np.hstack([constraints.gain, -constraints.copies[:, None]]),
        b_ub=np.zeros(m),
        A_eq=np.append(np.ones(n), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, None)] * n + [(None, None)],
    )
    if result.x is None:
        raise RuntimeError(f"linear program for the smallest epsilon failed: {result.message}")
    return min(float(result.x[-1]), 0.0)


def min_epsilon_max_gini(constraints: Constraints, weight: np.ndarray) -> np.ndarray:
    """The distribution f64[n] of largest 1 - sum sigma^2 / weight - 2 epsilon, epsilon <= 0.

    The value of the inner problem is convex in epsilon with slope -2 sum copies alpha, so the
    optimal epsilon makes the multipliers sum to 1, or is an end of its range.
    """
    least = smallest_epsilon(constraints)
    scale = np.max(np.abs(constraints.gain), initial=0.0)
    sigma, alpha = max_gini(constraints, weight, 0.0)
    low, high = least + 1e-10 * scale, 0.0
    if low >= high or constraints.copies @ alpha >= 1:
        return sigma
    for _ in range(60):
        middle = (low + high) / 2
        sigma, alpha = max_gini(constraints, weight, middle)
        low, high = (low, middle) if constraints.copies @ alpha < 1 else (middle, high)
        if high - low <= 1e-14 * scale:
            break
    return sigma
