"""The report of a sweep: its cells, what matters, and the best one on fresh seeds, as one page."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from agentrl.evaluation import figures, statistics
from agentrl.evaluation.figures import number
from agentrl.evaluation.markup import Markup, join, table, tag
from agentrl.evaluation.page import page
from agentrl.evaluation.sweeps import Cell, Sweep, scale

# Groups of cells by rank that share a colour: the page has so many ordered colours.
_FIFTHS = 5
_NAMES = ("worst fifth", "fourth fifth", "middle fifth", "second fifth", "best fifth")
# Axes with at most so many different values have a label at each.
_FEW = 8
_TOP, _BOTTOM, _HEIGHT, _WIDTH = 42, 16, 400, 1000
# Lines through one value of an axis are drawn side by side, up to so far from it.
_SPREAD = 13.0
# Labels stay readable where lines cross them.
_HALO = "paint-order:stroke;stroke:var(--card);stroke-width:4px"
# The best cell's colour in all figures, and the default's.
_BEST, _DEFAULT, _DIFFERENCE = 1, 0, 2


class _Axis(NamedTuple):
    """A vertical line: x, its name, {label: y}, and y of each cell that reaches it."""

    x: float
    name: str
    labels: Mapping[str, float]
    at: Mapping[str, float]


def report(sweep: Sweep, importance: Mapping[str, float], *, samples: int = 2000) -> str:
    """The report as an HTML document. importance: of the axes, {} where it is not known."""
    command = sweep.cells[0].command
    sections = [
        ("check", "The best cell against the default", _check(sweep, samples)),
        ("parallel", "Cells as lines", parallel(sweep)),
        ("importance", "Which axes matter", _importance(sweep, importance)),
        ("cells", "Cells", _cells(sweep, samples)),
        (
            "command",
            "Command of the best cell",
            tag("pre", command, class_="command") if command else Markup(""),
        ),
    ]
    seeds = max(len(cell.lines) for cell in sweep.cells)
    lead = f"{len(sweep.cells)} cells, {seeds} seed{'' if seeds == 1 else 's'} each"
    kind = sweep.about.get("search", "sweep")
    title = f"agentrl: {kind} in {sweep.directory.name}"
    return page(
        title, tag("p", lead + _budget(sweep), class_="lead"), [s for s in sections if s[2]]
    )


def _budget(sweep: Sweep) -> str:
    spent = sum(cell.update for cell in sweep.cells)
    whole = sum(cell.updates for cell in sweep.cells)
    parts = [
        f"{sum(cell.update >= u for cell in sweep.cells)} to update {u}" for u in _rungs(sweep)
    ]
    return f": {', '.join(parts)}; {spent:,} of {whole:,} updates ({spent / whole:.0%})"


def _rungs(sweep: Sweep) -> list[int]:
    """Updates at which cells ended, ascending."""
    return sorted({cell.update for cell in sweep.cells})


def _check(sweep: Sweep, samples: int) -> Markup:
    """What is left of the best cell's lead on seeds by which it was not chosen."""
    fresh = sweep.fresh
    if fresh is None:
        return Markup("")
    sides = {"best cell": (_BEST, fresh.of_best), "default": (_DEFAULT, fresh.of_default)}
    ends = [
        statistics.stratified_bootstrap(x[:, None], np.mean, samples=samples)
        for _, x in sides.values()
    ]
    inside = [x for pair in ends for x in pair if math.isfinite(x)]
    inside += [float(x.mean()) for _, x in sides.values()]
    bounds = (min(inside), max(inside))
    rows = [
        tag(
            "tr",
            tag("th", figures.key(style), name, scope="row"),
            _estimate(float(x.mean()), interval, bounds, style),
        )
        for (name, (style, x)), interval in zip(sides.items(), ends, strict=True)
    ]
    value, interval = fresh.difference
    low, high = interval
    widest = max(abs(x) for x in (value, low, high) if math.isfinite(x)) or 1.0
    name = tag("th", figures.key(_DIFFERENCE), "difference", scope="row")
    rows.append(
        tag("tr", name, _estimate(value, interval, (-widest, widest), _DIFFERENCE, reference=0.0))
    )
    if not math.isfinite(low):
        verdict = "One seed gives no interval."
    elif low > 0 > high or high > 0 > low:
        verdict = "The interval of the difference holds 0: these seeds do not tell them apart."
    else:
        better = "better" if (value > 0) != sweep.minimize else "worse"
        verdict = f"The best cell is {better} than the default."
    first, last = fresh.seeds[0], fresh.seeds[-1]
    whole = last - first == len(fresh.seeds) - 1
    seeds = f"{first} to {last}" if whole else ", ".join(map(str, fresh.seeds))
    text = (
        f"{sweep.metric} at the end, means over the seeds {seeds}, which the search has not seen, "
        "with 95\u00a0% intervals. Both sides have the same seeds; the difference is of pairs "
        "(Student's t). The cells below were chosen by their values, which are therefore too good. "
    )
    return join(tag("p", text, verdict), table(["", sweep.metric], rows))


def _estimate(
    value: float,
    interval: statistics.Interval,
    bounds: tuple[float, float],
    style: int,
    reference: float | None = None,
) -> Markup:
    """A table's cell: a value and its interval as numbers and as a dot with whiskers."""
    low, high = interval
    text = f"{value:.3f}" + (f" [{low:.3f}, {high:.3f}]" if math.isfinite(low) else "")
    dot = figures.whisker(value, low, high, bounds, style, reference=reference)
    return tag("td", text.replace("-", "−"), dot, class_="metric")


def parallel(sweep: Sweep) -> Markup:
    """Parallel coordinates: a line for each cell through its values and what it scored.

    The axes on the right are the updates at which cells ended; a line ends where its cell stopped.
    """
    rungs = _rungs(sweep)[-6:]
    axes = _axes(sweep, rungs)
    ranks = {cell.name: i for i, cell in enumerate(sweep.cells)}
    lines = []
    for cell in reversed(sweep.cells):
        points = [(axis.x, axis.at[cell.name]) for axis in axes if cell.name in axis.at]
        rank = ranks[cell.name]
        fifth = _FIFTHS - 1 - rank * _FIFTHS // len(sweep.cells)
        colour = figures.style(_BEST) if rank == 0 else f"ordered-{fifth}"
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        hint = tag("title", f"{_described(cell)}: {_scored(sweep, cell, rungs)}")
        width, opacity = (3.5, 1) if rank == 0 else (1.6, 0.45 + 0.11 * fifth)
        style = f"stroke-width:{width};opacity:{opacity:.2f}"
        lines.append(tag("path", hint, class_=f"line {colour}", d=path, style=style))
    frame = []
    for axis in axes:
        x = f"{axis.x:.1f}"
        frame.append(tag("line", class_="axis", x1=x, x2=x, y1=_TOP, y2=_HEIGHT - _BOTTOM))
        frame.append(tag("text", axis.name, class_="value middle", x=x, y=18))
    labels = [
        tag(
            "text", label, class_="tick end", style=_HALO, x=f"{axis.x - 7:.1f}", y=f"{y + 3.5:.1f}"
        )
        for axis in axes
        for label, y in axis.labels.items()
    ]
    best = sweep.cells[0]
    label = (
        f"{len(sweep.cells)} cells over {', '.join(sweep.axes)}; the best is {_described(best)}: "
        f"{_scored(sweep, best, rungs)}"
    )
    view = {"viewBox": f"0 0 {_WIDTH} {_HEIGHT}", "role": "img", "aria_label": label}
    svg = tag("svg", *frame, *lines, *labels, **view)
    note = f"{sweep.metric} at the updates on the right"
    caption = tag("figcaption", tag("b", "Cells"), tag("span", note, class_="note"))
    key = [
        (figures.style(_BEST), "best cell"),
        *((f"ordered-{i}", _NAMES[i]) for i in (4, 3, 2, 1, 0)),
    ]
    text = (
        "Each line is a cell. Ranks are by how far a cell came, then by its value there; a line "
        "ends where its cell stopped. Under the pointer a line says what it is."
    )
    return join(tag("p", text), figures.legend(key), tag("figure", caption, svg, class_="chart"))


def _described(cell: Cell) -> str:
    return ", ".join(f"{key}={_shown(value)}" for key, value in cell.values.items())


def _shown(value: Any) -> str:
    return number(value) if isinstance(value, int | float) else str(value)


def _scored(sweep: Sweep, cell: Cell, rungs: Sequence[int]) -> str:
    return ", ".join(
        f"{number(sweep.value(cell, u))} at update {u}" for u in rungs if u <= cell.update
    )


def _axes(sweep: Sweep, rungs: Sequence[int]) -> list[_Axis]:
    """One for each key, and one for each rung."""
    count = len(sweep.axes) + len(rungs)
    left, right = 90, _WIDTH - 40
    places = np.linspace(left, right, count) if count > 1 else [left]
    axes = []
    for x, key in zip(places, sweep.axes, strict=False):
        values = {cell.name: cell.values[key] for cell in sweep.cells}
        axes.append(_Axis(float(x), _short(key, sweep.axes), *_placed(values)))
    for x, update in zip(places[len(sweep.axes) :], rungs, strict=True):
        scored = {c.name: sweep.value(c, update) for c in sweep.cells if c.update >= update}
        axes.append(_Axis(float(x), f"update {update}", *_measured(scored)))
    return axes


def _measured(scored: Mapping[str, float]) -> tuple[dict[str, float], dict[str, float]]:
    """({label: y}, {cell: y}) of a rung, on the scale of the cells that reached it."""
    low, high = min(scored.values()), max(scored.values())
    room = (high - low) * 0.04 or abs(high) * 0.1 or 1.0
    low, high = low - room, high + room

    def down(value: float) -> float:
        bottom = _HEIGHT - _BOTTOM
        return bottom - (value - low) / (high - low) * (bottom - _TOP)

    labels = {number(v): down(v) for v in figures.ticks(low, high, 5)}
    return labels, {name: down(value) for name, value in scored.items()}


def _short(key: str, keys: Sequence[str]) -> str:
    """The last words of a key that no other key ends with."""
    words = key.split(".")
    for count in range(1, len(words)):
        short = ".".join(words[-count:])
        if sum(other == short or other.endswith(f".{short}") for other in keys) == 1:
            return short
    return key


def _placed(values: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, float]]:
    """({label: y}, {cell: y}) of an axis.

    values: by cell, best cells first. Cells that share one of few values lie side by side around
    it, the best one on top.
    """
    kind = scale(list(values.values()))
    distinct = sorted(set(values.values()), key=lambda v: (isinstance(v, str), v))
    if kind == "choice":
        spots = {v: float(i) for i, v in enumerate(distinct)}
    else:
        spots = {v: math.log(v) if kind == "log" else float(v) for v in distinct}
    low, high = min(spots.values()), max(spots.values())
    top, bottom = _TOP + _SPREAD + 4, _HEIGHT - _BOTTOM - _SPREAD - 4
    down = {
        v: bottom - (s - low) / ((high - low) or 1.0) * (bottom - top) for v, s in spots.items()
    }
    shown = distinct if len(distinct) <= _FEW else [distinct[0], distinct[-1]]
    at = {}
    for value in distinct:
        cells = [name for name, other in values.items() if other == value]
        apart = np.linspace(-_SPREAD, _SPREAD, len(cells)) if len(cells) > 1 else [0.0]
        at |= {name: down[value] + float(d) for name, d in zip(cells, apart, strict=True)}
    return {_shown(value): down[value] for value in shown}, at


def _importance(sweep: Sweep, importance: Mapping[str, float]) -> Markup:
    """Bars, the most important axis first."""
    if not importance:
        return Markup("")
    left, high, wide = 30 + 6.8 * max(map(len, importance)), 26, 640
    parts = []
    for i, (key, share) in enumerate(sorted(importance.items(), key=lambda item: -item[1])):
        y = i * high
        parts.append(tag("text", key, class_="tick end", x=f"{left - 8:.1f}", y=y + 17))
        length = share * (wide - left - 60)
        box = {"x": f"{left:.1f}", "y": y + 4, "width": f"{length:.1f}", "height": high - 8}
        parts.append(tag("rect", class_=f"area {figures.style(0)}", **box))
        place = {"x": f"{left + length + 6:.1f}", "y": y + 17}
        parts.append(tag("text", f"{share:.0%}", class_="tick", **place))
    label = "; ".join(f"{key}: {share:.0%}" for key, share in importance.items())
    view = {"viewBox": f"0 0 {wide} {len(importance) * high}", "role": "img", "aria_label": label}
    cells, update = len(sweep.cells), sweep.common_update()
    text = (
        f"PED-ANOVA (Watanabe, Bansal and Hutter, 2023) over {cells} cells at update {update}, "
        "which all of them reached: how far the values of an axis among the best cells (a tenth, "
        "at least five) are from those among all, as shares. It has no interval and says nothing "
        "of how axes interact; with few cells it is a hint."
    )
    svg = tag("svg", *parts, **view)
    return join(tag("p", text), tag("figure", svg, class_="chart map"))


def _cells(sweep: Sweep, samples: int) -> Markup:
    """One row for each cell, best first."""
    scores = {cell.name: sweep.scores(cell) for cell in sweep.cells}
    ends = {
        name: statistics.stratified_bootstrap(x[:, None], samples=samples)
        for name, x in scores.items()
    }
    inside = [sweep.value(cell) for cell in sweep.cells]
    inside += [x for interval in ends.values() for x in interval if math.isfinite(x)]
    bounds = (min(inside), max(inside))
    rows = [
        tag(
            "tr",
            tag("td", i + 1, class_="n"),
            *[tag("td", _shown(cell.values[key])) for key in sweep.axes],
            _estimate(sweep.value(cell), ends[cell.name], bounds, _BEST if i == 0 else _DEFAULT),
            tag("td", f"{cell.update:,}", class_="n"),
            tag("td", number(cell.env_steps(cell.update)), class_="n"),
        )
        for i, cell in enumerate(sweep.cells)
    ]
    text = (
        f"{sweep.metric} over the last tenth of a cell's updates, interquartile mean over seeds "
        "with its 95\u00a0% bootstrap interval, which is too narrow with fewer than ten seeds. "
        "Cells compare at the same update; their environment steps may differ."
    )
    head = ["", *sweep.axes, sweep.metric, "updates", "env steps a seed"]
    return join(tag("p", text), table(head, rows))
