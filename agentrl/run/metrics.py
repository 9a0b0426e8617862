"""Metrics of a run: JSON lines for programs, TensorBoard and other writers for people.

Metrics (Machine):
  updates_per_second: Updates [per second].
  env_steps_per_second: Environment steps [per second].
  tokens_per_second: Tokens written [per second].
  trained_tokens_per_second: Tokens learnt from [per second].
  peak_memory_gib: Peak memory [GiB].
  compile_time: Compilation [seconds].
  time/{part}: Time: {part} [seconds]; since the last line.
"""

import json
import math
import os
import pathlib
import resource
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from agentrl.evaluation import records
from agentrl.evaluation.records import read as read
from agentrl.run import writers

# Metrics of the machine. All others are a function of config and seed.
MACHINE_METRICS = (
    "wall_time",
    "compile_time",
    "peak_memory_gib",
    "updates_per_second",
    "env_steps_per_second",
    "tokens_per_second",
    "trained_tokens_per_second",
    "time/train",
    "time/evaluation",
    "time/checkpoint",
    "time/generation",
    "time/environment",
)


def means(totals: Mapping[str, np.ndarray], seed_index: int) -> dict[str, float]:
    """{name: mean} of one seed, from totals and weights [S, 2]; names of weight 0 are left out."""
    out = {}
    for name, values in sorted(totals.items()):
        total, weight = (float(x) for x in values[seed_index])
        if weight > 0:
            out[name] = total / weight
    return out


def rates(
    records: Sequence[Mapping[str, Any]], steps: float, updates: int, seconds: float
) -> dict[str, float]:
    """Rates per second of a program of so many updates, for quantities that are not zero.

    records: one per seed, with means per update. steps: environment steps of all seeds together.
    """
    out = {"updates_per_second": updates / seconds}
    if steps:
        out["env_steps_per_second"] = steps / seconds
    for name in ("tokens", "trained_tokens"):
        if name in records[0]:
            count = sum(record[name] for record in records) * updates
            out[f"{name}_per_second"] = count / seconds
    return out


def rewind(path: pathlib.Path, update: int) -> None:
    """Drops the lines after `update`: a run that resumes there writes them again.

    Also drops an incomplete last line. Damaged lines before stay. The file is replaced atomically.
    """
    if not path.exists():
        return
    kept, passed = [], False
    for line in records.lines(path):
        passed = passed or (line.record is not None and line.record["update"] > update)
        if not passed if line.record is None else line.record["update"] <= update:
            kept.append(line.text.removesuffix(b"\n") + b"\n")
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(b"".join(kept))
    os.replace(temporary, path)


def first_with(name: str, path: pathlib.Path) -> dict[int, dict[str, Any]]:
    """The first record of each seed that has a metric, by seed; {} without a file."""
    found: dict[int, dict[str, Any]] = {}
    for record in read(path) if path.exists() else ():
        if name in record:
            found.setdefault(record["seed"], record)
    return found


def peak_memory_gib() -> float:
    """Peak memory so far: of the accelerator if it reports it, else of this process."""
    stats = jax.local_devices()[0].memory_stats() or {}
    if "peak_bytes_in_use" in stats:
        return stats["peak_bytes_in_use"] / 2**30
    # Linux counts kilobytes, macOS bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30


class Writer:
    """Appends records to `metrics.jsonl` and to what config.writers names; used in a `with`.

    seeds: of the run. names: of config.writers. say: tells people a text, once per name.
    """

    def __init__(
        self,
        workdir: pathlib.Path,
        seeds: Iterable[int],
        names: Sequence[str],
        say: Callable[[str, str], None],
    ):
        self._file = (workdir / "metrics.jsonl").open("a")
        self._boards: dict[int, Any] = {}
        if "tensorboard" in names:
            from tensorboard.summary import Writer as Board

            self._boards = {seed: Board(str(workdir / "tb" / f"seed_{seed}")) for seed in seeds}
        made = [name for name in names if name in writers.TRACKERS]
        self._copies = [writers.Copy(x, workdir, writers.TRACKERS[x], say) for x in made]

    def __enter__(self) -> "Writer":
        return self

    def write(self, record: Mapping[str, float | int]) -> None:
        """Writes one record, which has `seed`, `update` and `env_steps`, by the order of names: one
        that waited in a file has the line that it would have had."""
        record = {k: v for k, v in record.items() if not isinstance(v, float) or math.isfinite(v)}
        self._file.write(json.dumps(record, sort_keys=True) + "\n")
        if record["seed"] not in self._boards:
            return
        board = self._boards[record["seed"]]
        for name, value in record.items():
            if name not in ("seed", "update"):
                board.add_scalar(name, value, step=record["update"])

    def flush(self) -> None:
        """Makes everything written so far visible to readers."""
        self._file.flush()
        for copy in self._copies:
            copy.update()

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        """Closes all files; what was written is kept. kind: of the error that ended the run."""
        self._file.close()
        for board in self._boards.values():
            board.close()
        for copy in self._copies:
            copy.close(failed=kind is not None)
