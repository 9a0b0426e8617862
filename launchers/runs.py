"""Lists the run directories below some directories, the last changed first.

    python -m launchers.runs                    # below runs/
    python -m launchers.runs runs /scratch/me
    python -m launchers.runs --csv > runs.csv

State, update, last success rate and return (means over seeds), seeds, when it last wrote, size,
directory, config, and why it failed or is broken: `agentrl.run.status` says what the states mean. A
run of stages is followed by its stages. Only reads, and starts in a moment, since it imports no
jax. --csv and --json print the same for programs, with the update of how many apart, host and
process id, sizes in bytes and times as ISO 8601.
"""

import csv
import datetime
import json
import os
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

from absl import flags

from agentrl.run.status import STAGES, Status, status
from launchers import cli

_CSV = flags.DEFINE_bool("csv", False, "Print comma-separated values.")
_JSON = flags.DEFINE_bool("json", False, "Print a list of JSON objects.")

# A directory with one of these is a run's, whole or damaged.
MARKS = {"config.json", STAGES, "metrics.jsonl", "checkpoints"}


def directories(root: pathlib.Path, seen: set[tuple[int, int]] | None = None) -> Iterator:
    """Run directories at or below a directory, and those that cannot be read; not below runs."""
    seen = set() if seen is None else seen
    try:
        place = root.stat()
        entries = sorted(os.scandir(root), key=lambda entry: entry.name)
    except OSError:
        yield root
        return
    if (place.st_dev, place.st_ino) in seen:  # links may lead in a circle
        return
    seen.add((place.st_dev, place.st_ino))
    if MARKS & {entry.name for entry in entries}:
        yield root
        return
    for entry in entries:
        if entry.is_dir() and not entry.name.startswith("."):
            yield from directories(root / entry.name, seen)


def size(directory: pathlib.Path) -> int:
    """Bytes of all files below a directory. Files that vanish meanwhile do not count."""
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except OSError:
                continue
    return total


def row(run: Status) -> dict[str, Any]:
    """What is printed of a run, by column."""
    at = None if run.changed is None else datetime.datetime.fromtimestamp(run.changed)
    return {
        "directory": str(run.workdir),
        "state": run.state,
        "update": run.update,
        "updates": run.updates,
        "success_rate": run.metrics.get("success_rate"),
        "episode_return": run.metrics.get("episode_return"),
        "seeds": _ranges(run.seeds),
        "config": run.config,
        "changed": None if at is None else at.astimezone().isoformat(timespec="seconds"),
        "bytes": size(run.workdir),
        "host": run.host,
        "pid": run.pid,
        "message": run.message,
    }


def _ranges(seeds: tuple[int, ...]) -> str:
    """0-4,7: the seeds, ascending, as ranges."""
    parts: list[list[int]] = []
    for seed in seeds:
        if parts and seed == parts[-1][-1] + 1:
            parts[-1].append(seed)
        else:
            parts.append([seed])
    return ",".join(str(x[0]) if len(x) == 1 else f"{x[0]}-{x[-1]}" for x in parts)


def _bytes(number: int) -> str:
    power = min(max(number.bit_length() - 1, 0) // 10, 4)
    amount = number / 2 ** (10 * power)
    unit = ("B", "KiB", "MiB", "GiB", "TiB")[power]
    return f"{amount:.0f} {unit}" if power == 0 or amount >= 100 else f"{amount:.1f} {unit}"


def _lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    """The table for people: a line for each run."""
    titles = ("state", "update", "success", "return", "seeds", "last change", "size", "directory")
    cells = [(*titles, "config", "")]
    for one in rows:
        numbers = [one["success_rate"], one["episode_return"]]
        cells.append(
            (
                one["state"],
                "" if one["update"] is None else f"{one['update']}/{one['updates']}",
                *("" if number is None else f"{number:.3f}" for number in numbers),
                one["seeds"],
                (one["changed"] or "")[:16].replace("T", " "),
                _bytes(one["bytes"]),
                one["directory"],
                one["config"],
                one["message"],
            )
        )
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        yield "  ".join(f"{x:{width}}" for x, width in zip(line, widths, strict=True)).rstrip()


def main(argv: list[str]) -> None:
    """Finds the runs, reads their states, prints them."""
    roots = [pathlib.Path(name) for name in argv[1:] or ["runs"]]
    for root in roots:
        if not root.is_dir():
            cli.fail(f"{root}: no such directory; name directories, python -m launchers.runs DIR")
    seen: set[tuple[int, int]] = set()
    runs = [status(path) for root in roots for path in directories(root, seen)]
    runs.sort(key=lambda run: run.changed or 0.0, reverse=True)
    begun = [[run, *(s for s in run.stages if s.state != "waiting")] for run in runs]
    rows = [row(one) for several in begun for one in several]
    if _JSON.value:
        print(json.dumps(rows, indent=2))
    elif _CSV.value:
        writer = csv.DictWriter(sys.stdout, list(row(Status(pathlib.Path(), ""))))
        writer.writeheader()
        writer.writerows(rows)
    elif rows:
        print("\n".join(_lines(rows)))
    else:
        print(f"no runs below {', '.join(map(str, roots))}", file=sys.stderr)


if __name__ == "__main__":
    cli.run(main)
