"""Suite `startup`: from the command to the first line of metrics, cold and warm.

`python -m launchers.train` in a process of its own, first with an empty compilation cache, then
with the one filled by that run. At the first line the program was imported, built, compiled and has
trained `log_every` updates.
"""

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import launchers
from agentrl.run import metrics
from launchers.benchmarks.tables import spread, table

COMMANDS = {
    "cartpole_ppo": ("--config=configs/start/cartpole_ppo.py", "--config.updates=20"),
    "coin gigpo": ("--config=configs/credit/coin.py:gigpo", "--config.updates=20"),
}
_TRAIN = (sys.executable, "-m", "launchers.train")
_POLL_SECONDS = 0.005
_LIMIT_SECONDS = 300


class Start(NamedTuple):
    """Seconds to the first line and to the end of the process, and the content of the first
    line."""

    first_line_seconds: float
    exit_seconds: float
    compile_seconds: float
    peak_memory_gib: float


def start(arguments: Sequence[str], cache: pathlib.Path) -> Start:
    """Runs a training command with a compilation cache; RuntimeError with its output on failure."""
    root = pathlib.Path(launchers.__file__).parents[1]
    with tempfile.TemporaryDirectory() as directory:
        workdir = pathlib.Path(directory) / "run"
        lines, log = workdir / "metrics.jsonl", pathlib.Path(directory) / "log"
        command = [*_TRAIN, *arguments, f"--workdir={workdir}"]
        environment = os.environ | {"AGENTRL_CACHE": str(cache)}
        # JAX's own variable would take precedence, with a cache that is not empty.
        environment.pop("JAX_COMPILATION_CACHE_DIR", None)
        with log.open("w") as output:
            before = time.perf_counter()
            process = subprocess.Popen(
                command, cwd=root, env=environment, stdout=output, stderr=output
            )
            try:
                first = _first_line(lines, process, before)
                code = process.wait(_LIMIT_SECONDS)
            finally:
                process.kill()
            exited = time.perf_counter() - before
        if code or first is None:
            raise RuntimeError(f"{' '.join(command)} failed ({code}): {log.read_text()[-2000:]}")
        record = metrics.read(lines)[0]
    return Start(first, exited, record["compile_time"], record["peak_memory_gib"])


def _first_line(lines: pathlib.Path, process: subprocess.Popen, before: float) -> float | None:
    """Seconds until a whole line has arrived; None if the process ended without one."""
    while True:
        ended = process.poll() is not None
        if lines.exists() and "\n" in lines.read_text():
            return time.perf_counter() - before
        if ended or time.perf_counter() - before > _LIMIT_SECONDS:
            return None
        time.sleep(_POLL_SECONDS)


def run(*, cold: int, warm: int, commands: dict[str, Sequence[str]] = COMMANDS) -> dict[str, Any]:
    """`cold` starts, each with an empty cache, then `warm` ones with the last cache: {"rows"}."""
    rows = []
    for name, arguments in commands.items():
        starts: dict[str, list[Start]] = {"cold": [], "warm": []}
        for _ in range(cold):
            with tempfile.TemporaryDirectory() as cache:
                starts["cold"].append(start(arguments, pathlib.Path(cache)))
                if len(starts["cold"]) == cold:
                    for _ in range(warm):
                        starts["warm"].append(start(arguments, pathlib.Path(cache)))
        rows += [_row(name, cache, found) for cache, found in starts.items()]
    return {"rows": rows}


def _row(name: str, cache: str, starts: list[Start]) -> dict[str, Any]:
    medians = {
        field: statistics.median(getattr(s, field) for s in starts) for field in Start._fields
    }
    seconds = [s.first_line_seconds for s in starts]
    return {
        "command": name,
        "cache": cache,
        "starts": len(starts),
        **medians,
        "seconds": seconds,
        "range": spread(min(seconds), max(seconds), ".1f"),
    }


COLUMNS = (
    ("command", ""),
    ("cache", ""),
    ("first_line_seconds", ".2f"),
    ("range", ""),
    ("starts", ""),
    ("compile_seconds", ".2f"),
    ("exit_seconds", ".2f"),
    ("peak_memory_gib", ".2f"),
)


def report(result: dict[str, Any]) -> str:
    """Seconds of each phase of a start, with an empty and a full cache, as a Markdown table."""
    return table("From the command to the first line of metrics", COLUMNS, result["rows"])
