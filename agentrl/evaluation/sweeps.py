"""Sweeps as tables and reports read them: cells, their axes, and what they score.

A sweep is a directory of run directories. What a cell is, its run's command says: the flags of
`launchers.train` without seeds. So every sweep can be read, however its cells were chosen; a search
adds `search.json`, which says how, and the runs of its best cell on fresh seeds.
"""

import json
import pathlib
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from agentrl.evaluation import statistics
from agentrl.evaluation.runs import FINAL_PART, Run, flat, load

# What a search writes about itself.
ABOUT = "search.json"
# The folder of runs on seeds that the search has not seen; see `Fresh`.
FRESH = "fresh_seeds"
# Repetitions, not settings.
SEEDS = ("seed", "num_seeds")


class Cell(NamedTuple):
    """One cell: all its seeds.

    values: by axis. lines: records of metrics.jsonl by seed. update: the last that all seeds
    reached, of `updates` that its config asks for. command: that trained it, of its first run.
    """

    name: str
    values: Mapping[str, Any]
    lines: Mapping[int, Sequence[Mapping[str, float]]]
    update: int
    updates: int
    command: str = ""

    def env_steps(self, until: int) -> float:
        """Steps in the environment up to an update, mean over seeds."""
        return float(
            np.mean(
                [
                    max(line.get("env_steps", 0) for line in lines if line["update"] <= until)
                    for lines in self.lines.values()
                ]
            )
        )


class Fresh(NamedTuple):
    """The best cell and the default on seeds that the search has not seen, f64[S] each."""

    best: str
    seeds: tuple[int, ...]
    of_best: np.ndarray
    of_default: np.ndarray

    @property
    def difference(self) -> tuple[float, statistics.Interval]:
        """Mean of best less default over seeds, and Student's t interval."""
        return statistics.paired_difference(self.of_best, self.of_default)


class Sweep(NamedTuple):
    """Cells of a sweep, best first.

    Those that ran longer come first: values of different updates do not compare. axes: keys in
    which the cells differ. about: contents of search.json, {} of a sweep that is no search.
    """

    directory: pathlib.Path
    metric: str
    minimize: bool
    axes: tuple[str, ...]
    cells: tuple[Cell, ...]
    about: Mapping[str, Any]
    fresh: Fresh | None

    def scores(self, cell: Cell, until: int | None = None) -> np.ndarray:
        """Of each seed of a cell, by default where it ended: see `scores`."""
        return scores(cell.lines, self.metric, cell.update if until is None else until)

    def value(self, cell: Cell, until: int | None = None) -> float:
        """Interquartile mean of the scores over seeds."""
        return float(statistics.iqm(self.scores(cell, until)))

    def common_update(self) -> int:
        """The last update that all cells reached: where all of them compare."""
        return min(cell.update for cell in self.cells)


def scores(
    lines: Mapping[int, Sequence[Mapping[str, float]]], metric: str, until: int
) -> np.ndarray:
    """What each seed scores at an update: mean of the metric over the last tenth before it, f64[S].

    The tenth is of the updates up to `until`. A metric that is counted more rarely, such as an
    evaluation, gives its last value.

    Raises:
      ValueError: a seed does not have the metric up to there.
    """
    out = []
    for seed in sorted(lines):
        counted = [x for x in lines[seed] if metric in x and x["update"] <= until]
        if not counted:
            known = sorted({name for line in lines[seed] for name in line})
            raise ValueError(
                f"seed {seed} has no metric {metric!r} up to update {until}; there are "
                f"{', '.join(known)}"
            )
        last = [x[metric] for x in counted if x["update"] > (1 - FINAL_PART) * until]
        out.append(np.mean(last or [counted[-1][metric]]))
    return np.asarray(out, np.float64)


def lines_of(directories: Sequence[pathlib.Path]) -> dict[int, Sequence[Mapping[str, float]]]:
    """Records by seed of the run directories of one cell. ValueError if one has none."""
    return {seed: lines for path in directories for seed, lines in load([path])[0].lines.items()}


def last_update(lines: Mapping[int, Sequence[Mapping[str, float]]]) -> int:
    """The last update that all seeds reached."""
    return min(records[-1]["update"] for records in lines.values())


def read(directory: pathlib.Path, metric: str | None = None, *, minimize: bool = False) -> Sweep:
    """The sweep in a directory. metric: by default the search's, else success_rate.

    Runs that have not counted the metric yet are left out.

    Raises:
      ValueError: no run in the directory has the metric.
    """
    path = directory / ABOUT
    about = json.loads(path.read_text()) if path.exists() else {}
    minimize = about.get("minimize", False) if metric is None else minimize
    metric = metric or about.get("metric", "success_rate")
    refused = "expected directories with a config.json; name the --workdir of a sweep"
    found: dict[str, list[tuple[Run, dict[str, str]]]] = {}
    places = [*directory.glob("*/config.json"), *directory.glob("*/seed_*/config.json")]
    for config in sorted(places):
        try:
            run = load([config.parent])[0]
            scores(run.lines, metric, last_update(run.lines))
        except ValueError as error:
            refused = str(error)
            continue
        settings = _settings(run)
        found.setdefault(json.dumps(settings, sort_keys=True), []).append((run, settings))
    if not found:
        raise ValueError(f"no run of a sweep in {directory}: {refused}")
    keys = list(dict.fromkeys(key for runs in found.values() for key in runs[0][1]))
    table = {name: {key: _value(*runs[0], key) for key in keys} for name, runs in found.items()}
    axes = [k for k in keys if len({repr(values[k]) for values in table.values()}) > 1]
    cells = []
    for name, runs in found.items():
        lines = {seed: records for run, _ in runs for seed, records in run.lines.items()}
        values = {key: table[name][key] for key in axes}
        # Seeds may be runs of their own, NAME__seed=0 or NAME/seed_0.
        path = runs[0][0].launches[0].path
        nested = path.parent.resolve() != directory.resolve()  # CELL/seed_0
        folder = path.parent.name if nested else path.name.partition("__seed=")[0]
        update, updates = last_update(lines), int(runs[0][0].config.get("updates", 0))
        command = runs[0][0].launches[0].provenance.get("command", "")
        cells.append(Cell(folder, values, lines, update, updates, command))
    sweep = Sweep(directory, metric, minimize, tuple(axes), (), about, None)
    sign = 1 if minimize else -1
    cells.sort(key=lambda c: (-c.update, sign * sweep.value(c), c.name))
    return sweep._replace(cells=tuple(cells), fresh=_fresh(sweep))


def scale(values: Sequence[Any]) -> str:
    """How an axis is drawn and weighed: "choice", "log", "uniform" or "int".

    Texts are choices. Numbers lie in their logarithms if they are positive and the largest is ten
    times the smallest or more.
    """
    if any(isinstance(value, bool | str) for value in values):
        return "choice"
    if min(values) > 0 and max(values) >= 10 * min(values):
        return "log"
    return "int" if all(isinstance(value, int) for value in values) else "uniform"


def _settings(run: Run) -> dict[str, str]:
    """Flags of the run's command that make it the cell that it is."""
    settings = {}
    for word in shlex.split(run.launches[0].provenance.get("command", "")):
        flag, _, value = word.lstrip("-").partition("=")
        if flag == "config":
            settings["config"] = value
        elif flag.startswith("config.") and flag.removeprefix("config.") not in SEEDS:
            settings[flag.removeprefix("config.")] = value
    return settings or {"config": run.name}


def _value(run: Run, settings: Mapping[str, str], key: str) -> Any:
    """A number or a text: as the run's config has it, or as it was written."""
    value = dict(flat(run.config)).get(key, settings.get(key, ""))
    return value if isinstance(value, int | float | str) else json.dumps(value)


def _fresh(sweep: Sweep) -> Fresh | None:
    """The runs on fresh seeds that search.json names, if both sides are complete."""
    named = sweep.about.get("fresh")
    if named is None:
        return None
    sides = [lines_of([sweep.directory / x for x in named[side]]) for side in ("best", "default")]
    until = [last_update(lines) for lines in sides]
    best, default = (scores(x, sweep.metric, u) for x, u in zip(sides, until, strict=True))
    return Fresh(named["cell"], tuple(sorted(sides[0])), best, default)


def rows(sweep: Sweep) -> list[dict[str, Any]]:
    """A row for each cell and seed: its values, how far it came, and every metric over its last
    tenth."""
    metrics = sorted({m for c in sweep.cells for lines in c.lines.values() for m in _names(lines)})
    out = []
    for cell in sweep.cells:
        for seed, lines in sorted(cell.lines.items()):
            row = {"cell": cell.name, **cell.values, "seed": seed, "update": cell.update}
            row |= {"env_steps": lines[-1].get("env_steps", "")}
            present = _names(lines)
            for metric in metrics:
                one = {seed: lines}
                has = metric in present
                row[metric] = float(scores(one, metric, cell.update)[0]) if has else ""
            out.append(row)
    return out


def _names(lines: Sequence[Mapping[str, float]]) -> set[str]:
    return {name for line in lines for name in line} - {"seed", "update", "env_steps"}
