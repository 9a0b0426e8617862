"""The table of a sweep: cells, best first, by interquartile means over seeds with intervals."""

import csv
import io
import pathlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from agentrl.evaluation import statistics
from launchers.cluster.backend import State
from launchers.cluster.cells import cell_of
from launchers.cluster.reports import Report

CSV = "table.csv"
COLUMNS = (
    *("cell", "state", "metric", "seeds", "update"),
    *("whole", "whole_low", "whole_high", "end", "end_low", "end_high", "message"),
)
# Of the lines of a run: its final performance.
_END = 0.1


class Estimate(NamedTuple):
    """An interquartile mean over seeds, and both ends of its 95 % bootstrap interval."""

    value: float
    low: float
    high: float


class Row(NamedTuple):
    """A cell. whole, end: of the metric over the whole run (how fast it learns) and over its last
    tenth (what it has learnt); None without the metric. update: the last that all seeds reached.
    """

    cell: str
    state: str
    seeds: int
    update: int
    whole: Estimate | None
    end: Estimate | None
    message: str


def rows(known: Sequence[Report], metric: str, *, minimize: bool = False) -> list[Row]:
    """A row for each cell, or for each stage of one whose config has stages.

    Seeds of a cell count as one run, whether they trained side by side or as jobs of their own. The
    best by `whole` come first, those without the metric last.
    """
    cells: dict[str, list[Report]] = {}
    for report in known:
        for directory in report.job.runs:
            name = cell_of(report.job) + (f"/{directory}" if directory else "")
            cells.setdefault(name, []).append(report)
    made = [_row(name, some, metric) for name, some in cells.items()]
    sign = 1 if minimize else -1
    return sorted(made, key=lambda r: (r.whole is None, r.whole and sign * r.whole.value))


def _row(name: str, some: Sequence[Report], metric: str) -> Row:
    cell, _, directory = name.partition("/")
    lines: dict[int, list[Mapping[str, Any]]] = {}
    for report in some:
        lines |= _lines(report.job.workdir / directory / "metrics.jsonl")
    series = [[line[metric] for line in lines[seed] if metric in line] for seed in sorted(lines)]
    series = [values for values in series if values]
    counts = Counter(report.state for report in some)
    state = ", ".join(f"{state} {n}" if len(some) > 1 else state for state, n in counts.items())
    reached = min((seed[-1]["update"] for seed in lines.values()), default=0)
    ends = [values[-max(1, round(_END * len(values))) :] for values in series]
    message = next((r.message for r in some if r.state is State.FAILED), "")
    message = message or next((r.message for r in some if r.message), "")
    return Row(name, state, len(series), reached, _estimate(series), _estimate(ends), message)


def _lines(path: pathlib.Path) -> dict[int, list[Mapping[str, Any]]]:
    """The records of a run by seed."""
    from agentrl.run import metrics

    out: dict[int, list[Mapping[str, Any]]] = {}
    for line in metrics.read(path) if path.exists() else ():
        out.setdefault(line["seed"], []).append(line)
    return out


def _estimate(series: Sequence[Sequence[float]]) -> Estimate | None:
    """Of the means of each seed."""
    if not series:
        return None
    scores = np.array([np.mean(values) for values in series])
    interval = statistics.stratified_bootstrap(scores[:, None])
    return Estimate(float(statistics.iqm(scores)), interval.low, interval.high)


def text(some: Sequence[Row], metric: str) -> Iterator[str]:
    """The table of a sweep in aligned columns, line by line, in the order of the rows."""
    yield (
        f"{metric}: interquartile means over seeds [95 % intervals], over the whole run and over "
        "its last tenth"
    )
    yield f"{'whole':>22} {'end':>22} seeds  update  state     cell"
    for row in some:
        means = " ".join(f"{_words(estimate):>22}" for estimate in (row.whole, row.end))
        message = f"  {row.message}" if row.message else ""
        yield f"{means} {row.seeds:5} {row.update:7}  {row.state:8}  {row.cell}{message}"


def _words(estimate: Estimate | None) -> str:
    if estimate is None:
        return "-"
    if np.isnan(estimate.low):  # one seed
        return f"{estimate.value:.3f}"
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


def write_csv(path: pathlib.Path, some: Sequence[Row], metric: str) -> None:
    """Writes `COLUMNS`; what is unknown is empty."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS)
    writer.writeheader()
    for row in some:
        record = {name: getattr(row, name) for name in COLUMNS if hasattr(row, name)}
        record |= {"metric": metric, "whole": "", "end": ""}
        for name in ("whole", "end"):
            estimate = getattr(row, name)
            if estimate is not None:
                ends = {name: estimate.value, f"{name}_low": estimate.low}
                ends[f"{name}_high"] = estimate.high
                record |= {key: x for key, x in ends.items() if not np.isnan(x)}
        writer.writerow(record)
    path.write_text(text.getvalue())
