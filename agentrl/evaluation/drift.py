"""Drift over the turns of a conversation: a fitted recursion, its equilibrium, and reminders."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np


class Drift(NamedTuple):
    """D_{t+1} = D_t + bias - rate D_t, fitted to a series by least squares.

    error: root mean square of the steps that it does not explain. explained: share of the steps'
    variance that it explains (R^2); 1 if they are all equal and met.
    """

    bias: float
    rate: float
    error: float
    explained: float

    @property
    def stable(self) -> bool:
        """Whether the recursion converges: 0 < rate < 2."""
        return 0.0 < self.rate < 2.0

    @property
    def equilibrium(self) -> float:
        """bias / rate; NaN for an unstable recursion."""
        return self.bias / self.rate if self.stable else float("nan")

    @property
    def noise_floor(self) -> float:
        """Standard deviation around the equilibrium from steps with deviation `error`."""
        if not self.stable:
            return float("nan")
        return self.error / float(np.sqrt(1.0 - (1.0 - self.rate) ** 2))


def fit_drift(divergence: Sequence[float]) -> Drift:
    """The recursion that fits a series of divergences per turn.

    Divergence between what a policy does and what a policy with the goal fresh in its context does,
    D_t, as metric drift/turn_{t} of component `agentrl.methods.drift`.

    Args:
      divergence: at least three numbers, of turns that follow each other.

    Raises:
      ValueError: fewer than three numbers, or numbers that are all equal or not finite.

    References:
      Drift no more? Context equilibria in multi-turn LLM interactions (2025), from notes on the
      paper; no code was read.
    """
    series = np.asarray(divergence, np.float64)
    if series.ndim != 1 or len(series) < 3 or not np.isfinite(series).all():
        raise ValueError(
            f"fit_drift: divergence={divergence!r}; expected at least three finite numbers"
        )
    level, steps = series[:-1], np.diff(series)
    if np.ptp(level) == 0:
        raise ValueError("fit_drift: the divergence is constant, which determines no rate")
    design = np.stack([np.ones_like(level), -level], axis=1)
    (bias, rate), *_ = np.linalg.lstsq(design, steps, rcond=None)
    left = steps - design @ np.array([bias, rate])
    spread = np.sum(np.square(steps - steps.mean()))
    explained = 1.0 - np.sum(np.square(left)) / spread if spread > 0 else 1.0
    error = np.sqrt(np.mean(np.square(left)))
    return Drift(float(bias), float(rate), float(error), float(explained))


def predicted_drift(
    start: float,
    bias: float,
    rate: float,
    turns: int,
    *,
    reminders: Mapping[int, float] | None = None,
) -> np.ndarray:
    """The recursion from D_0 = start, f64[turns + 1].

    D_{t+1} = D_t + bias - rate D_t - reminders[t + 1]. reminders: {turn: by how much a reminder at
    that turn lowers the divergence}.
    """
    reminders = reminders or {}
    series = [float(start)]
    for turn in range(1, turns + 1):
        level = series[-1]
        series.append(level + bias - rate * level - reminders.get(turn, 0.0))
    return np.array(series)
