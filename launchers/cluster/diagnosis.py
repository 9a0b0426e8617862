"""Which values of a sweep's axes its best runs have: `launchers.sweep --diagnose`."""

import csv
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from absl import flags

from agentrl.evaluation import best_runs, sweeps

# Shuffles that reach what was found, of which more say that nothing is shown.
LEVEL = 0.05


def define() -> None:
    """Defines the flags, for `launchers.sweep`."""
    flags.DEFINE_string(
        "diagnose", None, "Directory of a sweep, or CSV file with a row per run: which values win."
    )
    flags.DEFINE_list("axes", None, "Axes of --diagnose; those in which the cells differ.")
    flags.DEFINE_string("only", "", "Rows of --diagnose's file: column=value;column=value.")
    flags.DEFINE_integer("best_of", 0, "Runs that --diagnose draws; 0: as many as there are.")


def asked() -> bool:
    """Whether --diagnose is given."""
    return flags.FLAGS.diagnose is not None


def lines(metric: str) -> Iterator[str]:
    """What --diagnose prints: for each axis a table and a sentence.

    metric: of a sweep, over the last tenth before the update that all its cells reached; of a file,
    a column.

    Raises:
      ValueError: nothing to read, no such column, or an axis without two values.
    """
    path = pathlib.Path(flags.FLAGS.diagnose)
    if path.is_dir():
        sweep = sweeps.read(path, metric)
        update = sweep.common_update()
        rows = [
            {**cell.values, metric: score}
            for cell in sweep.cells
            for score in sweep.scores(cell, update)
        ]
        axes, what = flags.FLAGS.axes or list(sweep.axes), f"{metric} at update {update}"
    else:
        rows, axes, what = _of_file(path), flags.FLAGS.axes or [], metric
    columns = list(rows[0]) if rows else []
    for name in (metric, *axes):
        if name not in columns:
            where = "--metric" if name == metric else "--axes"
            raise ValueError(
                f"{where}={name}: not in {path}; expected one of {', '.join(columns) or 'no rows'}"
            )
    if not axes:
        raise ValueError(
            f"--diagnose={path}: "
            + ("its cells do not differ" if path.is_dir() else "a file needs --axes=column,...")
        )
    scores = np.array([float(row[metric]) for row in rows])
    draws = flags.FLAGS.best_of or len(scores)
    if draws < 1:
        raise ValueError(f"--best_of={draws}: expected one run or more, or 0 for all")
    yield f"{what}: {len(scores)} runs, of which {draws} are drawn, all values equally often"
    for axis in axes:
        yield ""
        others = [tuple(row[other] for other in axes if other != axis) for row in rows]
        yield from _axis(axis, [row[axis] for row in rows], others, scores, draws)
    yield ""
    yield (
        "No draw is better than the best run, so intervals are one-sided; one run for each cell "
        "shows its seed as much as its values."
    )


def _of_file(path: pathlib.Path) -> list[Mapping[str, Any]]:
    """The rows of a CSV file that --only asks for. ValueError as `lines`."""
    if not path.is_file():
        raise ValueError(f"--diagnose={path}: expected the directory of a sweep, or a CSV file")
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for part in filter(None, flags.FLAGS.only.split(";")):
        column, _, value = part.partition("=")
        known = sorted({row.get(column) or "" for row in rows})
        rows = [row for row in rows if row.get(column) == value]
        if not rows:
            raise ValueError(f"--only={part}: no such row; {column!r} has {', '.join(known)}")
    return rows


def _axis(
    axis: str, values: Sequence[Any], others: Sequence[Any], scores: np.ndarray, draws: int
) -> Iterator[str]:
    """The table and the sentence of an axis. others: what each run has on all other axes."""
    found = best_runs.standings(values, scores, draws)
    if len(found) < 2:
        raise ValueError(f"--axes={axis}: all runs have {values[0]!r}; expected two values or more")
    crossed = all(
        len({v for v, o in zip(values, others, strict=True) if o == other}) > 1
        for other in set(others)
    )
    share = best_runs.chance(values, scores, draws, blocks=others if crossed else None)
    width = max(len(axis), *(len(str(one.value)) for one in found))
    yield f"{axis:{width}}  runs   wins   best run [95 % of the draws]"
    for one in found:
        low, high = one.interval
        yield (
            f"{one.value!s:{width}}  {one.runs:4}  {one.wins:5.3f}  {one.best:.3f} "
            f"[{low:.3f}, {high:.3f}]"
        )
    first, second, each = found[0], found[1], max(1, round(draws / len(found)))
    pair = [scores[[value == one.value for value in values]] for one in (first, second)]
    better = best_runs.probability_of_better_best(*pair, each)
    where = "among runs that are equal otherwise" if crossed and any(others) else "over the runs"
    yield (
        f"The best of {draws} runs has {axis}={first.value} with probability {first.wins:.2f} "
        f"({1 / len(found):.2f} if values meant nothing); {share:.1%} of shuffles of the values "
        f"{where} reach that, so it {'is hardly' if share <= LEVEL else 'may be'} luck. The best "
        f"of {each} with {first.value} is above the best of {each} with {second.value} with "
        f"probability {better:.2f}."
    )
    few = [f"{one.value} ({one.runs})" for one in found if one.runs < best_runs.FEW]
    if few:
        yield f"Fewer than {best_runs.FEW} runs have {', '.join(few)}: run more of them first."
    if not crossed and len(set(zip(values, others, strict=True))) < len(values):
        yield "Seeds of one cell are shuffled as if they were independent, so luck is understated."
