"""Results of a comparison: one row per world, method and seed."""

import csv
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from agentrl.run import metrics
from configs._shared.comparison import SUCCESS, Score

# Fixed points of the budget at which a score is read off the evaluations, in tenths.
POINTS = tuple(range(1, 11))
# What an evaluation's file calls what the metrics have the mean of.
_OF_TASKS = {"evaluation/success_rate": "success", "evaluation/episode_return": "episode_return"}
# Means over the run that explain an order.
REASONS = (
    "group_return_std",
    "frac_zero_std_groups",
    "frac_singleton_anchor",
    "entropy",
    "approx_kl",
)


class Row(NamedTuple):
    """One seed of a method in a world.

    scores: on held-out tasks at each tenth of the budget.
    seconds: of one update of this seed, compilation and evaluation apart; of all seeds side by
    side, divided by their number. tuned: the values that were chosen, by key. reasons: see
    `REASONS`.
    """

    world: str
    method: str
    seed: int
    scores: tuple[float, ...]
    seconds: float
    tuned: Mapping[str, float]
    reasons: Mapping[str, float]

    @property
    def final(self) -> float:
        """The score at the end of the budget."""
        return self.scores[-1]

    @property
    def area(self) -> float:
        """The mean score over the budget: how fast it learns."""
        return float(np.mean(self.scores))


def lines_of(workdir: pathlib.Path) -> dict[int, list[dict[str, Any]]]:
    """The metrics of a run, by seed; {} if there are none."""
    path, found = workdir / "metrics.jsonl", {}
    for line in metrics.read(path) if path.exists() else ():
        found.setdefault(line["seed"], []).append(line)
    return found


def _at_start(workdir: pathlib.Path, score: Score) -> dict[str, float]:
    """By seed, the metric before the first update, of an evaluation there; {} for other metrics."""
    name = _OF_TASKS.get(score.metric)
    if name is None:
        return {}
    first = json.loads((workdir / "eval" / "update_000000.json").read_text())
    return {seed: float(np.mean(values[name])) for seed, values in first["per_seed"].items()}


def scores(
    workdir: pathlib.Path, budget: int, score: Score = SUCCESS
) -> dict[int, tuple[float, ...]]:
    """By seed, the score at each point of the budget, interpolated between measurements.

    workdir: of a run, with an evaluation at the start if the score is of evaluations. budget:
    turns.

    Raises:
      ValueError: a seed has not acted so often.
    """
    points, found = budget * np.asarray(POINTS) / POINTS[-1], {}
    metric, first = score.metric, _at_start(workdir, score)
    for seed, lines in lines_of(workdir).items():
        known = [(line["env_steps"], line[metric]) for line in lines if metric in line]
        known.insert(0, (0, first.get(str(seed), score.low)))
        x, y = np.asarray(known, np.float64).T
        if x[-1] < budget:
            raise ValueError(
                f"{workdir}, seed {seed}: {x[-1]:.0f} turns of the budget of {budget}; the same "
                "command goes on"
            )
        values = (np.interp(points, x, y) - score.low) / (score.high - score.low)
        found[seed] = tuple(round(float(value), 4) for value in values)
    return found


def of_run(
    workdir: pathlib.Path, world: str, method: str, budget: int, tuned: Mapping, score: Score
) -> list[Row]:
    """The rows of a method's run; see `scores`."""
    rows, by_seed = [], lines_of(workdir)
    for seed, values in scores(workdir, budget, score).items():
        lines = by_seed[seed]
        rates = [line["updates_per_second"] for line in lines if "updates_per_second" in line]
        seconds = 1.0 / float(np.median(rates)) / len(by_seed)
        means = {
            name: float(np.mean([line[name] for line in lines if name in line]))
            for name in REASONS
            if any(name in line for line in lines)
        }
        rows.append(Row(world, method, seed, values, seconds, tuned, means))
    return rows


def write(path: pathlib.Path, rows: Sequence[Row]) -> None:
    """Writes rows, sorted, as CSV."""
    keys = sorted({key for row in rows for key in row.tuned})
    names = ["world", "method", "seed", *(f"at_{10 * p}" for p in POINTS), *keys, *REASONS]
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*names, "seconds"])
        for row in sorted(rows, key=lambda row: (row.world, row.method, row.seed)):
            tuned = [f"{row.tuned[key]:g}" if key in row.tuned else "" for key in keys]
            reasons = [f"{row.reasons[n]:.4g}" if n in row.reasons else "" for n in REASONS]
            scored = [f"{value:g}" for value in row.scores]
            numbers = [row.world, row.method, row.seed, *scored, *tuned, *reasons]
            writer.writerow([*numbers, f"{row.seconds:.3g}"])


def read(path: pathlib.Path) -> list[Row]:
    """Rows of a file; none if there is no file. ValueError for a file of another form."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        try:
            return [_row(record) for record in csv.DictReader(file)]
        except (KeyError, ValueError, TypeError) as error:
            raise ValueError(f"{path}: not the results of a comparison ({error!r})") from None


def _row(record: Mapping[str, Any]) -> Row:
    return Row(
        record["world"],
        record["method"],
        int(record["seed"]),
        tuple(float(record[f"at_{10 * p}"]) for p in POINTS),
        float(record["seconds"]),
        {key: float(value) for key, value in record.items() if "." in key and value},
        {name: float(record[name]) for name in REASONS if record[name]},
    )
