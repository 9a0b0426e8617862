"""The report's charts over training: learning curves, anchor groups, all other metrics."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from agentrl.evaluation import figures, statistics
from agentrl.evaluation.intervals import estimate
from agentrl.evaluation.markup import Markup, join, stacked, tag
from agentrl.evaluation.metric_names import describe, natural, place
from agentrl.evaluation.runs import HEADLINE, Run
from agentrl.evaluation.scales import axis

NOT_CURVES = (
    "seed",
    "update",
    "env_steps",
    "gradient_steps",
    "wall_time",
    "compile_time",
    "episodes",
)
_ANCHOR_SIZE = "anchor_size/"
# Curves whose names stand at their ends; with more they would be too close to each other.
MAX_NAMED = 5
# Families of metrics that are folded: they say nothing of what was learnt.
_FOLDED = ("Machine",)
_STEPS = "environment steps"


def legend(runs: Sequence[Run], shown: Sequence[Run]) -> Markup:
    """Names of the shown runs in their colours."""
    return figures.legend([(figures.style(i), r.name) for i, r in enumerate(runs) if r in shown])


def _series(
    runs: Sequence[Run], shown: Sequence[Run], metric: str, samples: int, points: int
) -> list[figures.Series]:
    out = []
    for i, run in enumerate(runs):
        grid = statistics.common_grid(run.lines, metric, points=points) if run in shown else []
        if len(grid):
            c = statistics.curve(run.lines, metric, grid, samples=samples)
            out.append(figures.Series(run.name, i, c.x, c.value, c.low, c.high))
    return out


def _chart(series: Sequence[figures.Series], metric: str, **options: Any) -> Markup:
    """Curves of a metric under its name, on the axis that all its charts have."""
    named = describe(metric)
    y_range = axis(metric, [a for s in series for a in (s.y, s.low, s.high)])
    words = {"key": metric, "unit": named.unit, "note": named.meaning}
    words |= {"x_label": _STEPS, "y_range": y_range}
    return figures.lines(named.title, series, **words | options)


def learning(runs: Sequence[Run], environments: Sequence[str], samples: int) -> Markup:
    """Headline metrics over environment steps, one pair of charts per environment.

    Metrics that were written once are in the tables of results: a point makes no curve.
    """
    parts, alone = [], False
    for environment in environments:
        shown = [run for run in runs if run.env == environment]
        named = len(shown) <= MAX_NAMED
        charts = []
        for metric in HEADLINE:
            series = _series(runs, shown, metric, samples, points=200)
            series = [s for s in series if len(s.x) > 1]
            alone = alone or any(np.isnan(s.low).all() for s in series)
            if series:
                charts.append(_chart(series, metric, named=named, note=""))
        if charts:
            parts.append(tag("h3", environment) if len(environments) > 1 else None)
            parts.append(None if named else legend(runs, shown))
            parts.append(tag("div", *charts, class_="charts"))
    if not parts:
        return Markup()
    note = "Interquartile mean over seeds and its pointwise 95 % bootstrap interval."
    if alone:
        note += (
            " A run with one seed is a line without an interval: other seeds would be elsewhere."
        )
    note += " A curve ends where its shortest seed ends; nothing is smoothed."
    return join(parts, tag("p", note, class_="note"))


def anchor_groups(runs: Sequence[Run]) -> Markup:
    """Sizes of the groups in which GiGPO compares turns, over training; one chart per run."""
    charts, classes = [], []
    for run in runs:
        names = sorted((n for n in run.metrics() if n.startswith(_ANCHOR_SIZE)), key=natural)
        shares, grid = {}, statistics.common_grid(run.lines, names[0]) if names else []
        for name in names:
            if len(grid):
                # Means of shares sum to one; interquartile means need not.
                c = statistics.curve(run.lines, name, grid, statistic=np.mean, samples=1)
                shares[_size_label(name)] = c.value
        if shares:
            classes = [(f"ordered-{i}", label) for i, label in enumerate(shares)]
            charts.append(figures.stack(run.name, grid, shares, x_label=_STEPS))
    if not charts:
        return Markup()
    note = (
        "Share of turns by the size of their anchor group, mean over seeds. A turn that is alone "
        "gets no step credit, and the larger the groups, the more exact the comparison in them."
    )
    return join(
        figures.legend(classes, swatch="area"),
        tag("div", *charts, class_="charts"),
        tag("p", note, class_="note"),
    )


def _size_label(name: str) -> str:
    low, _, high = name.removeprefix(_ANCHOR_SIZE).partition("_")
    if not high:
        return "1 (alone)" if low == "1" else low
    return f"{low} and more" if high == "up" else f"{low} to {high}"


def others(
    runs: Sequence[Run],
    environments: Sequence[str],
    metrics: Sequence[str] | None,
    samples: int,
) -> Markup:
    """Small charts of `metrics`, or of all metrics that are not headline metrics, by family."""
    parts = []
    for environment in environments:
        shown = [run for run in runs if run.env == environment]
        names = metrics
        if names is None:
            found = set().union(*(run.metrics() for run in shown)) - {*NOT_CURVES, *HEADLINE}
            names = sorted((n for n in found if not n.startswith(_ANCHOR_SIZE)), key=place)
        charts: dict[str, list[Markup]] = {}
        points: dict[str, list[figures.Series]] = {}
        for name in names:
            series = _series(runs, shown, name, samples, points=100)
            if any(len(s.x) > 1 for s in series):
                drawn = _chart(series, name, size=(300, 170))
                charts.setdefault(describe(name).family or "Others", []).append(drawn)
            elif series:
                points[name] = series
        if not charts and not points:
            continue
        parts.append(tag("h3", environment) if len(environments) > 1 else None)
        parts.append(legend(runs, shown) if len(shown) > 1 else None)
        for family, drawn in charts.items():
            grid = tag("div", *drawn, class_="charts small")
            if family in _FOLDED:
                title = tag("summary", f"{family}: {len(drawn)} metrics")
                parts.append(tag("details", title, grid))
            else:
                parts += [tag("h4", family, class_="family"), grid]
        parts.append(_written_once(points, shown) if points else None)
    return join(*parts)


def _written_once(points: dict[str, list[figures.Series]], shown: Sequence[Run]) -> Markup:
    """A table of metrics with a single value: a point has no axes."""
    rows = []
    for name, series in points.items():
        named, values = describe(name), {s.name: s for s in series}
        cells = [
            estimate(float(s.y[0]), (float(s.low[0]), float(s.high[0]))) if s else "–"
            for s in (values.get(run.name) for run in shown)
        ]
        first = join(named.title, " ", tag("code", name, class_="raw"))
        rows.append([first, named.unit, *cells])
    head = ["metric", "unit", *[run.name for run in shown]]
    kinds = ["", "", *["n" for _ in shown]]
    return join(tag("h4", "Written once", class_="family"), stacked(head, rows, kinds))
