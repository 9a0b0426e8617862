"""What a limit on turns would save and lose: the curve of cost and success."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Budget(NamedTuple):
    """Tasks under a limit on turns. solved: share of them. cost: mean per task."""

    limit: float
    solved: float
    cost: float


def budget_curve(
    length: Sequence[int],
    success: Sequence[bool],
    limits: Sequence[float],
    *,
    growth: float = 0.0,
) -> list[Budget]:
    """Cost and success of the same episodes, had they been cut after so many turns.

    An episode of n turns costs n + growth n (n - 1) / 2: with growth > 0 each turn reads again what
    was said before. Cut after L turns it costs what min(n, L) turns cost, and is solved if it was
    solved in at most L. That is a policy that does not know of the limit, as by a reminder of
    `envs.wrappers.TurnBudget`.

    Args:
      length: turns of each episode. success: whether it was solved, at its last turn.
      limits: turns; np.inf for none.
      growth: share of a turn's cost that each earlier turn adds to it.

    Returns:
      One `Budget` per limit, in order.

    Raises:
      ValueError: no episodes, other lengths, a limit below 1, or a negative growth.
    """
    turns, solved = np.asarray(length, np.float64), np.asarray(success, bool)
    if turns.ndim != 1 or turns.shape != solved.shape or not turns.size:
        raise ValueError(
            f"budget_curve: {turns.shape} lengths and {solved.shape} successes; expected one of "
            "each per episode, and at least one episode"
        )
    if growth < 0 or any(limit < 1 for limit in limits):
        raise ValueError(
            f"budget_curve: limits {tuple(limits)}, growth {growth}: expected limits from 1 on and "
            "a growth of 0 or more"
        )
    curve = []
    for limit in limits:
        spent = np.minimum(turns, limit)
        cost = spent + growth * spent * (spent - 1) / 2
        curve.append(Budget(limit, float(np.mean(solved & (turns <= limit))), float(cost.mean())))
    return curve
