"""The report's section on drift: the divergence of each turn, and the recursion that fits it."""

import re
from collections.abc import Sequence

import numpy as np

from agentrl.evaluation import figures
from agentrl.evaluation.drift import Drift, fit_drift, predicted_drift
from agentrl.evaluation.markup import Markup, join, stacked, tag
from agentrl.evaluation.runs import Run

_METRIC = re.compile(r"drift/turn_(\d+)")
_NOTE = (
    "KL per token to the policy that has just been reminded of its task, mean over the seeds' last "
    "tenth of the updates, with the range of the seeds. Dashes of the table: turns that do not "
    "follow each other, or a series that no recursion D(t + 1) = D(t) + bias - rate D(t) "
    "determines; an equilibrium bias / rate only where 0 < rate < 2. Later turns are those of "
    "episodes that got so far."
)


def turns_of(run: Run) -> tuple[np.ndarray, np.ndarray]:
    """(turns i64[T], divergence f64[seeds, T]) of the run's metrics drift/turn_{t}, by turn.

    Turns that not every seed has at the end are left out.
    """
    numbers = sorted(int(m[1]) for m in map(_METRIC.fullmatch, run.metrics()) if m)
    series = {n: run.final(f"drift/turn_{n}") for n in numbers}
    kept = [n for n, x in series.items() if len(x) == len(run.lines)]
    each = np.array([series[n] for n in kept]).reshape(len(kept), len(run.lines))
    return np.array(kept, int), each.T


def fitted(turns: np.ndarray, divergence: np.ndarray) -> Drift | None:
    """The recursion of a series f64[T], if its turns follow each other and determine one."""
    if len(turns) < 3 or (np.diff(turns) != 1).any():
        return None
    try:
        return fit_drift(divergence)
    except ValueError:
        return None


def section(runs: Sequence[Run]) -> Markup:
    """A curve per run over the turns, the fitted one beside it, and the fits in a table."""
    curves, rows = [], []
    for i, run in enumerate(runs):
        turns, each = turns_of(run)
        if not len(turns):
            continue
        mean = each.mean(0)
        curves.append(figures.Series(run.name, i, turns, mean, each.min(0), each.max(0)))
        fit = fitted(turns, mean)
        cells = ["–"] * 4
        if fit is not None:
            line = predicted_drift(mean[0], fit.bias, fit.rate, len(turns) - 1)
            none = np.full(len(turns), np.nan)
            curves.append(figures.Series(f"{run.name}, fitted", i, turns, line, none, none))
            told = fit.bias, fit.rate, fit.equilibrium, fit.explained
            cells = [figures.number(x) if np.isfinite(x) else "–" for x in told]
        rows.append([join(figures.key(i), run.name), *cells])
    if not rows:
        return Markup("")
    drawn = figures.lines("Drift", curves, x_label="turn", unit="nats per token", key="drift/turn_")
    head = ["run", "bias", "rate", "equilibrium", "explained (R²)"]
    return join(
        tag("div", drawn, class_="charts"),
        stacked(head, rows, ["", "n", "n", "n", "n"]),
        tag("p", _NOTE, class_="note"),
    )
