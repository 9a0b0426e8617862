"""Estimates with intervals, one below the other on a common axis."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from agentrl.evaluation.figures import caption, style
from agentrl.evaluation.markup import Markup, join, tag
from agentrl.evaluation.scales import extent, tick_texts, ticks

_WIDTH, _ROW, _SIDE, _BELOW = 420, 42, 14, 34


class Row(NamedTuple):
    """An estimate: its name, value and interval (nan: none), and the index of its style."""

    name: str
    value: float
    low: float
    high: float
    style: int = 0


def dot_plot(
    title: str,
    rows: Sequence[Row],
    *,
    x_label: str = "",
    bounds: tuple[float, float] | None = None,
    reference: float | None = None,
    key: str = "",
    unit: str = "",
    note: str = "",
) -> Markup:
    """Each row's name and numbers, below them a dot with its interval.

    bounds: ends of the axis, by default those of the data and the reference, a vertical line. The
    picture is narrow enough for a phone.
    """
    ends = [np.array([row.value, row.low, row.high]) for row in rows]
    low, high = bounds or extent([*ends, np.array([] if reference is None else [reference])])
    height = _ROW * len(rows) + _BELOW

    def across(x: float) -> str:
        return f"{_SIDE + (x - low) / (high - low) * (_WIDTH - 2 * _SIDE):.1f}"

    bottom, parts = height - _BELOW + 4, []
    values = ticks(low, high, 5)
    for value, text in zip(values, tick_texts(values), strict=True):
        x = across(float(value))
        parts.append(tag("line", class_="grid", x1=x, x2=x, y1=2, y2=bottom))
        parts.append(tag("text", text, class_="tick middle", x=x, y=bottom + 14))
    if reference is not None:
        x = across(reference)
        parts.append(tag("line", class_="axis", x1=x, x2=x, y1=2, y2=bottom))
    if x_label:
        at = {"x": _WIDTH - _SIDE, "y": height - 4}
        parts.append(tag("text", x_label, class_="tick end", **at))
    for i, row in enumerate(rows):
        y = _ROW * i
        parts.append(tag("text", row.name, class_="row", x=_SIDE - 8, y=y + 15))
        numbers = {"class_": "row end", "x": _WIDTH - _SIDE + 8, "y": y + 15}
        parts.append(tag("text", estimate(row.value, (row.low, row.high)), **numbers))
        middle = y + 28
        if math.isfinite(row.low) and math.isfinite(row.high):
            line = {"x1": across(row.low), "x2": across(row.high), "y1": middle, "y2": middle}
            parts.append(tag("line", class_=f"whisker {style(row.style)}", **line))
        dot = {"cx": across(row.value), "cy": middle, "r": 4.5}
        parts.append(tag("circle", class_=f"dot {style(row.style)}", **dot))
    label = f"{title}: " + "; ".join(
        f"{row.name} {estimate(row.value, (row.low, row.high))}" for row in rows
    )
    box = {"viewBox": f"0 0 {_WIDTH} {height}", "role": "img", "aria_label": label}
    svg = tag("svg", tag("title", label), join(*parts), **box)
    return tag("figure", caption(title, key=key, unit=unit, note=note), svg, class_="chart")


def estimate(value: float, interval: Sequence[float], decimals: int | None = None) -> str:
    """For example `0.983 [0.686, 0.984]`; by default three significant digits of the largest
    number."""
    ends = [end for end in interval if np.isfinite(end)]
    if decimals is None:
        size = max(abs(x) for x in (value, *ends))
        decimals = int(np.clip(2 - np.floor(np.log10(size)), 0, 3)) if size > 0 else 2
    value, *ends = (f"{x:,.{decimals}f}".replace("-", "−") for x in (value, *ends))
    return f"{value} [{ends[0]}, {ends[1]}]" if ends else value
