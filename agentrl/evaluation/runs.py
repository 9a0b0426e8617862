"""Run directories as the report reads them: config, metrics, evaluations, provenance."""

import dataclasses
import json
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from agentrl.evaluation import records, sheets, standings
from agentrl.evaluation.sheets import Sheet
from agentrl.selfplay.arena import Arena

# Headline metrics, if present.
HEADLINE = ("success_rate", "episode_return")
# Arrays of an evaluation, one entry per episode.
COLUMNS = ("episode_return", "length", "success")
# Final metrics of a run are means over this last part of its updates.
FINAL_PART = 0.1


@dataclasses.dataclass(frozen=True)
class Launch:
    """One directory: its path, its provenance.json ({} if missing), and its duration."""

    path: pathlib.Path
    provenance: Mapping[str, Any]
    wall_seconds: float


@dataclasses.dataclass(frozen=True)
class Run:
    """One experiment: a config and all its seeds, from one or several launches.

    lines: records of metrics.jsonl by seed, ascending in update. evaluations: contents of eval/,
    ascending in update. elsewhere: those of its subfolders, by name: other environments, one of
    several, or the run's own with other options. arenas: (arena, about) of each launch with an
    arena.json. attempts: (about, sheets) of each launch with an attempts.json, of launchers.select.
    """

    name: str
    launches: tuple[Launch, ...]
    config: Mapping[str, Any]
    lines: Mapping[int, Sequence[Mapping[str, float]]]
    evaluations: tuple[Mapping[str, Any], ...]
    elsewhere: Mapping[str, tuple[Mapping[str, Any], ...]] = dataclasses.field(default_factory=dict)
    arenas: tuple[tuple[Arena, Mapping[str, Any]], ...] = ()
    attempts: tuple[tuple[Mapping[str, Any], tuple[Sheet, ...]], ...] = ()

    @property
    def env(self) -> str:
        """config.env.name; of several environments their names."""
        return str(_section(self.config, "env"))

    @property
    def algorithm(self) -> str:
        """The estimator, and the terms of the objective beside the warm start's, by function."""
        terms = [
            term
            for term in self.config.get("objective", {}).values()
            if term.get("weight") != 0 and term.get("during") != "warm_start"
        ]
        names = [_section(self.config, "advantage"), *(term.get("name", "?") for term in terms)]
        return " · ".join(str(name).rpartition(".")[2] for name in names)

    def metrics(self) -> set[str]:
        """Names of all metrics in any line of any seed."""
        return {name for lines in self.lines.values() for line in lines for name in line}

    def last_update(self) -> int:
        """The last update that all seeds reached."""
        return min(lines[-1]["update"] for lines in self.lines.values())

    def final(self, metric: str) -> np.ndarray:
        """Mean of the metric over the last tenth of the updates, per seed that has it."""
        last = self.last_update()
        scores = []
        for seed in sorted(self.lines):
            values = [
                line[metric]
                for line in self.lines[seed]
                if metric in line and (1 - FINAL_PART) * last < line["update"] <= last
            ]
            if values:
                scores.append(np.mean(values))
        return np.asarray(scores, np.float64)


def _section(config: Mapping[str, Any], name: str) -> Any:
    section = config.get(name)
    return section.get("name", "?") if isinstance(section, dict) else "?"


def flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted key, value) of a nested dict, in its order."""
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield prefix + str(key), value


def _read_json(path: pathlib.Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not readable JSON ({error})") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path} contains {type(content).__name__}, expected a JSON object")
    return content


def _read_evaluation(path: pathlib.Path) -> dict[str, Any]:
    record = _read_json(path)
    try:
        tables = [*record["per_seed"].values(), *filter(None, [record.get("expert")])]
        lengths = {len(table[column]) for table in tables for column in COLUMNS}
        whole = int(record["update"]) >= 0 and lengths == {int(record["episodes"])} != {0}
    except (AttributeError, KeyError, TypeError, ValueError):
        whole = False
    if not whole:
        raise ValueError(f"{path} is not a complete evaluation; run launchers.evaluate again")
    return record


def _read_evaluations(directory: pathlib.Path) -> tuple[dict[str, Any], ...]:
    """Evaluations of one environment, ascending in update."""
    records = [_read_evaluation(path) for path in sorted(directory.glob("update_*.json"))]
    return tuple(sorted(records, key=lambda record: record["update"]))


def _read_lines(path: pathlib.Path) -> dict[int, list[dict[str, float]]]:
    """Complete records by seed. Values that are not finite numbers are left out of a record."""
    by_seed: dict[int, list[dict[str, float]]] = {}
    for record in records.read(path):
        numbers = {
            str(name): value
            for name, value in record.items()
            if isinstance(value, int | float) and np.isfinite(value)
        }
        by_seed.setdefault(record["seed"], []).append(numbers)
    return {seed: sorted(lines, key=lambda r: r["update"]) for seed, lines in by_seed.items()}


def _wall_seconds(lines: Sequence[Mapping[str, float]]) -> float:
    """Total seconds, from one seed's lines (seeds of a launch share a clock).

    Each resumption starts its clock at 0, so when the clock goes back its last value is added.
    """
    total = before = 0.0
    for line in lines:
        now = line.get("wall_time", before)
        total += before if now < before else 0.0
        before = now
    return total + before


def _load_one(path: pathlib.Path) -> Run:
    if not path.is_dir():
        raise ValueError(f"{path} is not a directory; name the --workdir of a run")
    if not (path / "config.json").exists():
        raise ValueError(f"{path} holds no run (no config.json); name the --workdir of a run")
    config = _read_json(path / "config.json")
    metrics = path / "metrics.jsonl"
    lines = _read_lines(metrics) if metrics.exists() else {}
    if not lines:
        raise ValueError(f"{path} has no metrics yet (metrics.jsonl is missing or empty)")
    provenance = path / "provenance.json"
    folders = sorted(folder for folder in (path / "eval").glob("*") if folder.is_dir())
    elsewhere = {folder.name: _read_evaluations(folder) for folder in folders}
    launch = Launch(
        path,
        _read_json(provenance) if provenance.exists() else {},
        _wall_seconds(next(iter(lines.values()))),
    )
    arena = path / "arena.json"
    arenas = (standings.read(arena),) if arena.exists() else ()
    attempts = path / "attempts.json"
    return Run(
        str(path),
        (launch,),
        config,
        lines,
        _read_evaluations(path / "eval"),
        {name: records for name, records in elsewhere.items() if records},
        arenas,
        (sheets.read(attempts),) if attempts.exists() else (),
    )


def _identity(run: Run) -> str:
    """Equal for launches of the same config and code that differ only in their seeds."""
    config = {k: v for k, v in run.config.items() if k not in ("seed", "num_seeds")}
    return json.dumps([config, run.launches[0].provenance.get("git")], sort_keys=True)


def _both(
    some: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]]
) -> tuple[Mapping[str, Any], ...]:
    """Evaluations of several launches of one run, merged update by update."""
    evaluations = {record["update"]: dict(record) for record in some}
    for record in others:
        mine = evaluations.setdefault(record["update"], dict(record))
        mine["per_seed"] = mine["per_seed"] | record["per_seed"]
    return tuple(evaluations[update] for update in sorted(evaluations))


def _merged(one: Run, other: Run) -> Run:
    names = sorted({*one.elsewhere, *other.elsewhere})
    return dataclasses.replace(
        one,
        launches=one.launches + other.launches,
        lines={**one.lines, **other.lines},
        evaluations=_both(one.evaluations, other.evaluations),
        elsewhere={n: _both(one.elsewhere.get(n, ()), other.elsewhere.get(n, ())) for n in names},
        arenas=one.arenas + other.arenas,
        attempts=one.attempts + other.attempts,
    )


def load(workdirs: Sequence[pathlib.Path]) -> list[Run]:
    """Reads run directories.

    Directories of the same config and commit with different seeds become one run, so that seeds
    launched separately count together. Runs are named by the shortest distinct suffixes of their
    paths.

    Raises:
      ValueError: a directory is missing, contains no run or no metrics, or has broken JSON.
    """
    runs: list[Run] = []
    for path in workdirs:
        run = _load_one(path)
        for i, before in enumerate(runs):
            if _identity(before) == _identity(run) and not before.lines.keys() & run.lines.keys():
                runs[i] = _merged(before, run)
                break
        else:
            runs.append(run)
    parts = [run.launches[0].path.absolute().parts for run in runs]
    length = 1
    while len({p[-length:] for p in parts}) < len(set(parts)):
        length += 1
    return [
        dataclasses.replace(r, name="/".join(p[-length:])) for r, p in zip(runs, parts, strict=True)
    ]
