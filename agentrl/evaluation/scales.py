"""Numbers for people, and the ends and ticks of axes."""

import math
from collections.abc import Sequence

import numpy as np

from agentrl.evaluation.metric_names import describe

# Metrics that have the whole range of a share on their axis, and returns, which have the same where
# they fit into it: equal data have equal axes.
_WHOLE = ("success_rate", "win_rate/", "draw_rate")
_RETURNS = ("episode_return", "return/")


def number(value: float) -> str:
    """A number for display: three significant digits, k and M for thousands and millions."""
    if not math.isfinite(value):
        return "–"
    size = abs(value)
    for least, unit, letter in ((0.9995e9, 1e9, "G"), (0.9995e6, 1e6, "M"), (1e4, 1e3, "k")):
        if size >= least:
            text = f"{value / unit:.3g}{letter}"
            break
    else:
        if size >= 1000 or (value == round(value) and size >= 1):
            text = f"{value:,.0f}"
        elif size == 0:
            text = "0"
        elif size < 1e-3:
            text = f"{value:.1e}".replace("e-0", "e-")
        else:
            text = f"{value:.3g}"
    return text.replace("-", "−")


def ticks(low: float, high: float, count: int) -> np.ndarray:
    """About `count` round numbers from low to high, in steps of 1, 2 or 5 times a power of ten."""
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(s * power for s in (1, 2, 5, 10) if s * power >= raw * 0.7)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return np.arange(first, last + 1) * step


def tick_texts(values: np.ndarray) -> list[str]:
    """Labels of ticks, with as many digits as tell them apart."""
    texts = [number(float(value)) for value in values]
    if len(set(texts)) == len(texts):
        return texts
    decimals = max(0, -math.floor(math.log10(values[1] - values[0]) + 1e-9))
    return [f"{value:,.{decimals}f}".replace("-", "−") for value in values]


def extent(arrays: Sequence[np.ndarray]) -> tuple[float, float]:
    """Smallest and largest finite value, widened so that they differ."""
    values = np.concatenate([np.ravel(a) for a in arrays]) if arrays else np.zeros(0)
    values = values[np.isfinite(values)]
    if values.size == 0:
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    if low == high == 0:
        return 0.0, 1.0
    room = (high - low) * 0.04 or abs(high) * 0.1
    return low - room, high + room


def axis(metric: str, arrays: Sequence[np.ndarray]) -> tuple[float, float]:
    """The ends of a metric's axis.

    Success, and returns from 0 to 1, have the axis from 0 to 1, so that charts of one run side by
    side compare by eye; returns down to -1 have it from the next fifth below. Other shares begin at
    0, and end at 1 where they exceed a half. All others have the ends of the data.
    """
    values = np.concatenate([np.ravel(a) for a in arrays]) if arrays else np.zeros(0)
    values = values[np.isfinite(values)]
    name = metric.removeprefix("evaluation/")
    inside = values.size > 0 and values.min() >= 0 and values.max() <= 1
    if name.startswith(_WHOLE) or (name.startswith(_RETURNS) and inside):
        return 0.0, 1.0
    if name.startswith(_RETURNS) and values.size and -1 <= values.min() and values.max() <= 1:
        return math.floor(5 * values.min()) / 5, 1.0
    if describe(metric).unit == "share" and inside:
        highest = float(values.max())
        return 0.0, 1.0 if highest > 0.5 or highest == 0 else 1.06 * highest
    return extent(arrays)
