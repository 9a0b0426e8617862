"""Charts as inline SVG: curves with bands, stacked shares, dots with whiskers."""

import json
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from agentrl.evaluation.markup import Markup, escape, join, tag
from agentrl.evaluation.scales import extent, tick_texts
from agentrl.evaluation.scales import number as number
from agentrl.evaluation.scales import ticks as ticks

# Colours defined by the page's style sheet as .series-0 and so on, after Okabe and Ito (2008).
NUM_STYLES = 8
_MARGIN = {"left": 46, "right": 12, "top": 8, "bottom": 32}
_LETTER = 7.6  # width of a letter of a curve's name


class Series(NamedTuple):
    """One curve: its name, the index of its style, and f64[G] arrays; nan is not drawn."""

    name: str
    style: int
    x: np.ndarray
    y: np.ndarray
    low: np.ndarray
    high: np.ndarray


class _Frame(NamedTuple):
    """Position of the data in a picture of width x height units; beside: room right of them."""

    width: float
    height: float
    x: tuple[float, float]
    y: tuple[float, float]
    beside: float = _MARGIN["right"]

    @property
    def right(self) -> float:
        """The right end of the x-axis."""
        return self.width - self.beside

    def across(self, x: np.ndarray) -> np.ndarray:
        left, right = _MARGIN["left"], self.right
        return left + (np.asarray(x) - self.x[0]) / (self.x[1] - self.x[0]) * (right - left)

    def down(self, y: np.ndarray) -> np.ndarray:
        top, bottom = _MARGIN["top"], self.height - _MARGIN["bottom"]
        return bottom - (np.asarray(y) - self.y[0]) / (self.y[1] - self.y[0]) * (bottom - top)


def _path(x: np.ndarray, y: np.ndarray) -> str:
    """SVG path through the finite points, with gaps at the others."""
    words, pen = [], "M"
    for a, b in zip(x, y, strict=True):
        if math.isfinite(a) and math.isfinite(b):
            words.append(f"{pen}{a:.1f} {b:.1f}")
            pen = "L"
        else:
            pen = "M"
    return "".join(words)


def _band(x: np.ndarray, low: np.ndarray, high: np.ndarray) -> str:
    keep = np.isfinite(low) & np.isfinite(high)
    if not keep.any():
        return ""
    around = np.concatenate([low[keep], high[keep][::-1]])
    return _path(np.concatenate([x[keep], x[keep][::-1]]), around) + "Z"


def _axes(frame: _Frame, x_label: str, dense: bool) -> Markup:
    """Grid, tick labels and the name of the x-axis."""
    parts = []
    bottom = frame.height - _MARGIN["bottom"]
    values = ticks(*frame.y, 4 if dense else 5)
    for value, text in zip(values, tick_texts(values), strict=True):
        y = float(frame.down(value))
        line = {"x1": _MARGIN["left"], "x2": frame.right}
        parts.append(tag("line", class_="grid", y1=f"{y:.1f}", y2=f"{y:.1f}", **line))
        place = {"x": _MARGIN["left"] - 6, "y": f"{y + 3.5:.1f}"}
        parts.append(tag("text", text, class_="tick end", **place))
    for value in ticks(*frame.x, 3 if dense else 6):
        x = float(frame.across(value))
        parts.append(tag("text", number(value), class_="tick middle", x=f"{x:.1f}", y=bottom + 14))
    at = {"x": frame.right, "y": frame.height - 3}
    parts.append(tag("text", x_label, class_="tick end", **at))
    axis = {"x1": _MARGIN["left"], "x2": frame.right, "y1": bottom, "y2": bottom}
    return join(*parts, tag("line", class_="axis", **axis))


def _rounded(values: np.ndarray) -> list[float | None]:
    return [float(f"{v:.4g}") if math.isfinite(v) else None for v in values]


def _hovered(name: str, class_: str, *arrays: np.ndarray) -> dict:
    """A curve for the pointer; arrays: x, y, low, high."""
    named = zip(("x", "y", "low", "high"), map(_rounded, arrays), strict=True)
    return {"name": name, "style": class_, **dict(named)}


def caption(title: str, *, key: str = "", unit: str = "", note: str = "") -> Markup:
    """A figure's title and unit, with the metric's name in the files and its meaning below."""
    return tag(
        "figcaption",
        tag("b", title),
        tag("span", unit, class_="unit") if unit else None,
        tag("span", tag("code", key, class_="raw") if key else None, note, class_="note")
        if key or note
        else None,
    )


def _figure(head: Markup, frame: _Frame, drawing: Markup, hover: dict, label: str) -> Markup:
    svg = tag(
        "svg",
        tag("title", label),
        drawing,
        viewBox=f"0 0 {frame.width:g} {frame.height:g}",
        role="img",
        aria_label=label,
    )
    box = {
        "x": frame.x,
        "plot": [
            _MARGIN["left"],
            _MARGIN["top"],
            frame.right,
            frame.height - _MARGIN["bottom"],
        ],
        "width": frame.width,
    }
    data = json.dumps(box | hover, allow_nan=False)
    return tag("figure", head, svg, class_="chart", data_chart=data)


def lines(
    title: str,
    series: Sequence[Series],
    *,
    x_label: str,
    note: str = "",
    y_range: tuple[float, float] | None = None,
    size: tuple[float, float] = (440, 256),
    key: str = "",
    unit: str = "",
    named: bool = False,
) -> Markup:
    """Curves with bands. y_range: fixed ends of the y-axis, else those of the data.

    key, unit: of the metric, beside the title. named: the curves' names stand at their ends.
    The numbers are in `data-chart`, for the pointer; without scripts, and for screen readers, the
    label has the last value of each curve.
    """
    x_range = extent([s.x for s in series])
    frame = _Frame(
        *size,
        (min(float(s.x.min()) for s in series), max(float(s.x.max()) for s in series)),
        y_range or extent([a for s in series for a in (s.y, s.low, s.high)]),
        _LETTER * max(len(_short(s.name)) for s in series) + 14 if named else _MARGIN["right"],
    )
    if frame.x[0] == frame.x[1]:
        frame = frame._replace(x=x_range)
    drawing = [_axes(frame, x_label, dense=size[0] < 400)]
    for s in series:
        band = _band(frame.across(s.x), frame.down(s.low), frame.down(s.high))
        drawing.append(tag("path", class_=f"band {style(s.style)}", d=band) if band else None)
    for s in series:
        x, y = frame.across(s.x), frame.down(s.y)
        drawing.append(tag("path", class_=f"line {style(s.style)}", d=_path(x, y)))
        if len(s.x) == 1:
            at = {"cx": f"{x[0]:.1f}", "cy": f"{y[0]:.1f}", "r": 3.5}
            drawing.append(tag("circle", class_=f"dot {style(s.style)}", **at))
    drawing += _names(series, frame) if named else []
    hover = {"label": x_label, "series": [_hovered(s.name, style(s.style), *s[2:]) for s in series]}
    ends = "; ".join(f"{s.name} ends at {number(float(s.y[-1]))}" for s in series)
    label = f"{title} over {x_label}: {ends}"
    head = caption(title, key=key, unit=unit, note=note)
    return _figure(head, frame, join(*drawing), hover, label)


def _short(name: str) -> str:
    """A name of at most 18 letters, of which the last ones tell runs apart."""
    return name if len(name) <= 18 else f"…{name[-17:]}"


def _names(series: Sequence[Series], frame: _Frame) -> list[Markup]:
    """The curves' names right of their last points, moved apart where they would overlap."""
    ends = [s.y[np.isfinite(s.y)][-1:] for s in series]
    shown = [(float(frame.down(y[0])), s) for y, s in zip(ends, series, strict=True) if len(y)]
    shown.sort(key=lambda item: item[0])
    top, bottom = _MARGIN["top"] + 4, frame.height - _MARGIN["bottom"]
    places: list[float] = []
    for wanted, _ in shown:
        places.append(max(wanted, places[-1] + 14 if places else top))
    beyond = max(0.0, places[-1] - bottom) if places else 0.0
    return [
        tag(
            "text",
            tag("title", s.name),
            _short(s.name),
            class_=f"name {style(s.style)}",
            x=f"{frame.right + 7:.1f}",
            y=f"{place - beyond + 4:.1f}",
        )
        for place, (_, s) in zip(places, shown, strict=True)
    ]


def stack(
    title: str,
    x: np.ndarray,
    shares: dict[str, np.ndarray],
    *,
    x_label: str,
    note: str = "",
    size: tuple[float, float] = (440, 220),
) -> Markup:
    """Shares that sum to one, stacked from the bottom in their order; x, shares f64[G]."""
    x = np.asarray(x, np.float64)
    ends = (x[0], x[-1]) if x[-1] > x[0] else (x[0] - 1, x[0] + 1)
    wide = x if len(x) > 1 else np.asarray(ends)
    frame = _Frame(*size, (float(ends[0]), float(ends[1])), (0.0, 1.0))
    drawing, below = [], np.zeros(len(wide))
    for i, share in enumerate(shares.values()):
        above = below + np.broadcast_to(share, wide.shape)
        band = _band(frame.across(wide), frame.down(below), frame.down(above))
        drawing.append(tag("path", class_=f"area ordered-{i}", d=band))
        below = above
    drawing.append(_axes(frame, x_label, dense=False))
    nothing, named = np.full(len(x), np.nan), enumerate(shares.items())
    curves = [
        _hovered(name, f"ordered-{i}", x, share, nothing, nothing) for i, (name, share) in named
    ]
    hover = {"label": x_label, "series": curves}
    last = ", ".join(f"{name}: {float(share[-1]):.0%}" for name, share in shares.items())
    label = f"{title}; at the end {last}"
    return _figure(caption(title, note=note), frame, join(*drawing), hover, label)


def heat_map(
    title: str,
    names: Sequence[str],
    values: np.ndarray,
    details: Sequence[Sequence[str]],
    *,
    note: str = "",
) -> Markup:
    """A matrix f64[K, K] with details below its entries; rows and columns have the same names.

    Positive values in one colour, negative ones in another; larger magnitudes are darker.
    """
    count = len(names)
    left, top, wide, high = 30 + 6.6 * max(map(len, names)), 22, 74, 40
    largest = float(np.max(np.abs(values))) or 1.0
    parts = []
    for i, name in enumerate(names):
        middle = f"{top + (i + 0.5) * high + 3.5:.1f}"
        row = {"x": f"{left - 8:.1f}", "y": middle}
        parts.append(tag("text", f"{name}  {i + 1}", class_="tick end", **row))
        column = {"x": f"{left + (i + 0.5) * wide:.1f}", "y": top - 7}
        parts.append(tag("text", i + 1, class_="tick middle", **column))
        for j, value in enumerate(np.asarray(values, np.float64)[i]):
            x, y = left + j * wide, top + i * high
            parts.append(
                tag(
                    "rect",
                    class_=f"area {style(0 if value >= 0 else 1)}",
                    fill_opacity=f"{0.75 * abs(value) / largest:.2f}",
                    x=f"{x:.1f}",
                    y=y,
                    width=wide,
                    height=high,
                )
            )
            at = {"x": f"{x + wide / 2:.1f}", "y": f"{y + 18}"}
            parts.append(tag("text", number(float(value)), class_="value middle", **at))
            at["y"] = f"{y + 32}"
            parts.append(tag("text", details[i][j], class_="tick middle", **at))
    rows = (
        f"{name}: {', '.join(number(float(v)) for v in row)}"
        for name, row in zip(names, values, strict=True)
    )
    label = f"{title}; columns {', '.join(names)}; {'; '.join(rows)}"
    size = f"0 0 {left + count * wide + 4:g} {top + count * high + 4:g}"
    svg = tag("svg", tag("title", label), *parts, viewBox=size, role="img", aria_label=label)
    return tag("figure", caption(title, note=note), svg, class_="chart map")


def whisker(
    value: float,
    low: float,
    high: float,
    bounds: tuple[float, float],
    number_of_style: int,
    *,
    reference: float | None = None,
) -> Markup:
    """A dot with its interval on a scale from bounds[0] to bounds[1], for a table's cell."""
    width, height = 150, 16
    span = (bounds[1] - bounds[0]) or 1.0

    def at(x: float) -> str:
        return f"{4 + (x - bounds[0]) / span * (width - 8):.1f}"

    middle = height / 2
    parts = [tag("line", class_="grid", x1=4, x2=width - 4, y1=middle, y2=middle)]
    if reference is not None:
        x = at(reference)
        parts.append(tag("line", class_="axis", x1=x, x2=x, y1=1, y2=height - 1))
    if math.isfinite(low) and math.isfinite(high):
        ends = {"x1": at(low), "x2": at(high), "y1": middle, "y2": middle}
        parts.append(tag("line", class_=f"whisker {style(number_of_style)}", **ends))
    dot = {"cx": at(value), "cy": middle, "r": 4}
    parts.append(tag("circle", class_=f"dot {style(number_of_style)}", **dot))
    view = {"viewBox": f"0 0 {width} {height}", "aria_hidden": "true", "class_": "mini"}
    return tag("svg", *parts, **view)


def style(number_of_style: int) -> str:
    """CSS class of a series' colour; from the ninth on they repeat, dashed."""
    dashed = " dashed" if number_of_style >= NUM_STYLES else ""
    return f"series-{number_of_style % NUM_STYLES}{dashed}"


def key(number_of_style: int) -> Markup:
    """A square in a series' colour, shown before its name."""
    return tag("span", class_=f"key {style(number_of_style)}")


def legend(entries: Sequence[tuple[str, str]], *, swatch: str = "line") -> Markup:
    """Names with their colours: (class, name) each; swatch "line" or "area"."""
    items = []
    for class_, name in entries:
        if swatch == "line":
            mark = tag("line", class_=f"line {class_}", x1=1, x2=21, y1=6, y2=6)
        else:
            mark = tag("rect", class_=f"area {class_}", x=4, y=0, width=14, height=12)
        picture = tag("svg", mark, viewBox="0 0 22 12", class_="swatch", aria_hidden="true")
        items.append(tag("li", picture, escape(name)))
    return tag("ul", *items, class_="legend")
