"""How far a run has come and how it ended, from its directory alone. Only reads; imports no jax."""

import contextlib
import dataclasses
import fcntl
import json
import os
import pathlib
import platform
import shlex
import time
from collections.abc import Mapping
from typing import Any

from agentrl.evaluation.records import record_of, told
from agentrl.run.files import steps

# Files that tell it, beside metrics and checkpoints: the last process that trained in a directory
# (`workdir.claimed`), the stages of a run of several (`stages.run`), and metrics that wait for
# their evaluation (`evaluations.pending`).
PROCESS, STAGES, PENDING = "process.json", "stages.json", "pending.json"
# Metrics that are shown, if a run has them.
SHOWN = ("success_rate", "episode_return")
# Of a file of metrics the end is read, which has many times the lines of all seeds.
TAIL_BYTES = 2**20
# A lock is seen on its own machine only. A run on another one is running if it was there and wrote
# within so many seconds.
RECENT_SECONDS = 600.0


@dataclasses.dataclass(frozen=True)
class Status:
    """State of a run.

    state: "waiting" (there is no directory, or an empty one), "running", "stopped" (the same
      command resumes), "failed", "done", or "broken" (files that no run has left so).
    update, updates: the last update that was logged or saved, of how many; None if unknown.
    message: why it failed or is broken, how it stopped, or that metrics are damaged; one line, ""
      if there is none to give.
    seeds: of the config; of all stages together.
    config: what --config named in the command; "" if unknown.
    metrics: the last value of each of `SHOWN`, a mean over seeds.
    changed: when it last wrote, in seconds since the epoch; None while it waits.
    host, pid: the last process that trained there; "" and None if unknown.
    stages: of a run of stages each one's, in their order.
    """

    workdir: pathlib.Path
    state: str
    update: int | None = None
    updates: int | None = None
    message: str = ""
    seeds: tuple[int, ...] = ()
    config: str = ""
    metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)
    changed: float | None = None
    host: str = ""
    pid: int | None = None
    stages: tuple["Status", ...] = ()


class _Broken(Exception):
    """A file that no run has left so."""


def status(workdir: pathlib.Path) -> Status:
    """State of the run in a directory, or of the run of stages. Never raises, and never writes."""
    workdir = pathlib.Path(workdir)
    try:
        if (workdir / STAGES).exists():
            return _of_stages(workdir, _read(workdir / STAGES))
        if not workdir.exists():
            return Status(workdir, "waiting")
        names = set(os.listdir(workdir))
        if "config.json" not in names:
            if names - {"config.tmp"}:
                raise _Broken("holds no run (no config.json)")
            return Status(workdir, "waiting")
        return _of_run(workdir, _read(workdir / "config.json"))
    except _Broken as error:
        return Status(workdir, "broken", message=str(error), changed=_changed(workdir))
    except OSError as error:
        return Status(workdir, "broken", message=f"cannot be read ({error.strerror or error})")


def is_spent(workdir: pathlib.Path, update: int) -> bool:
    """Whether the metrics of an update say that every seed has as many turns as the run's config
    allows (`env_steps`), so that the run has ended there."""
    try:
        budget = _read(workdir / "config.json").get("env_steps") or 0
    except _Broken:
        return False
    records = filter(None, map(record_of, _last_lines(workdir / "metrics.jsonl").values()))
    steps = [record.get("env_steps", 0) for record in records if record.get("update") == update]
    return bool(steps) and 0 < budget <= min(steps)


def is_locked(workdir: pathlib.Path) -> bool:
    """Whether a process of this machine trains in the directory.

    Holds the lock itself for an instant; `workdir.claimed` therefore tries more than once.
    """
    directory = os.open(workdir, os.O_RDONLY)
    try:
        fcntl.flock(directory, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(directory)
    return False


def _read(path: pathlib.Path) -> dict[str, Any]:
    """A JSON object; {} if there is no such file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise _Broken(f"{path.name} is not readable JSON ({error})") from None
    if not isinstance(content, dict):
        raise _Broken(f"{path.name} contains {type(content).__name__}, expected a JSON object")
    return content


def _of_run(workdir: pathlib.Path, config: Mapping[str, Any]) -> Status:
    numbers = [config.get(key) for key in ("updates", "seed", "num_seeds")]
    if not all(isinstance(number, int) for number in numbers):
        raise _Broken("config.json is not a run's config (no updates, seed or num_seeds)")
    updates, seed, num_seeds = numbers
    logged, shown, damaged = _metrics(workdir / "metrics.jsonl")
    folder = workdir / "checkpoints"
    saved = steps(folder)
    process = _read(workdir / PROCESS)
    changed, host = _changed(workdir), str(process.get("host", ""))
    last = updates if updates in saved else max(saved, default=0)
    done = last == updates or is_spent(workdir, last)
    done = done and _read(workdir / PENDING).get("update") != last
    state, message = _state(workdir, process, changed, done)
    message = message or damaged
    return Status(
        workdir,
        state,
        max([logged, *saved]),
        updates,
        message,
        tuple(range(seed, seed + num_seeds)),
        _config_of(str(_read(workdir / "provenance.json").get("command", ""))),
        shown,
        changed,
        host,
        process.get("pid"),
    )


def _state(
    workdir: pathlib.Path, process: Mapping[str, Any], changed: float, done: bool
) -> tuple[str, str]:
    """State and message of a run whose files are whole."""
    if is_locked(workdir):
        return "running", ""
    ended, host = process.get("ended"), process.get("host", "")
    if process.get("error"):
        return "failed", str(process["error"])
    if done:
        return "done", ""
    if process and ended is None:
        if host == platform.node():
            return "stopped", "its process was killed"
        age = time.time() - changed
        if age < RECENT_SECONDS:
            return "running", f"on {host}"
        return (
            "stopped",
            f"or running on {host}, where it has written nothing for {age / 60:.0f} min",
        )
    return "stopped", ""


def _of_stages(workdir: pathlib.Path, content: Mapping[str, Any]) -> Status:
    """The states of all stages as one: of the first of these that one of them has."""
    try:
        plan = [(str(stage["name"]), int(stage["updates"])) for stage in content["stages"]]
    except (KeyError, TypeError, ValueError):
        raise _Broken(f"{STAGES} is not a list of stages") from None
    stages = tuple(status(workdir / name) for name, _ in plan)
    first = {stage.state: stage for stage in reversed(stages)}
    order = ("broken", "running", "failed", "stopped", "waiting", "done")
    state = next((state for state in order if state in first), "waiting")
    one, changed = first.get(state), [s.changed for s in stages if s.changed is not None]
    if state == "waiting" and changed:
        state = "stopped"  # between two stages
    last = max((s for s in stages if s.changed is not None), key=lambda s: s.changed, default=None)
    return Status(
        workdir,
        state,
        sum(stage.update or 0 for stage in stages),
        sum(updates for _, updates in plan),
        f"{one.workdir.name}: {one.message}" if one and one.message else "",
        tuple(sorted({seed for stage in stages for seed in stage.seeds})),
        next((stage.config for stage in stages if stage.config), ""),
        {} if last is None else last.metrics,
        max(changed, default=None),
        "" if last is None else last.host,
        None if last is None else last.pid,
        stages,
    )


def _metrics(path: pathlib.Path) -> tuple[int, dict[str, float], str]:
    """The last update of a file of metrics, 0 if it has none, the last values of `SHOWN`, and which
    lines are damaged, "" if none is."""
    last, by_seed = 0, {name: {} for name in SHOWN}
    lines = _last_lines(path)
    for record in filter(None, map(record_of, lines.values())):
        last = max(last, record["update"])
        for name in SHOWN:
            with contextlib.suppress(KeyError, TypeError, ValueError):
                by_seed[name][record["seed"]] = float(record[name])
    means = {name: sum(x.values()) / len(x) for name, x in by_seed.items() if x}
    wrong = [number for number, text in lines.items() if text.strip() and not record_of(text)]
    return last, means, f"{path.name}: {told(wrong)}" if wrong else ""


def _last_lines(path: pathlib.Path) -> dict[int, bytes]:
    """Complete lines at the end of a file of metrics, by number from 1; from the end of a long
    file, down from -1."""
    if not path.exists():
        return {}
    with path.open("rb") as file:
        start = max(file.seek(0, os.SEEK_END) - TAIL_BYTES, 0)
        file.seek(start)
        lines = file.read().split(b"\n")
    lines = lines[start > 0 : -1]  # what follows the last line's end is being written
    return dict(enumerate(lines, -len(lines) if start else 1))


def _changed(workdir: pathlib.Path) -> float | None:
    """When a run last wrote one of its files; None if there are none."""
    names = ("config.json", "metrics.jsonl", PROCESS, PENDING, "checkpoints", "eval")
    paths = [workdir / name for name in names]
    return max((path.stat().st_mtime for path in paths if path.exists()), default=None)


def _config_of(command: str) -> str:
    """What --config names in a command line."""
    with contextlib.suppress(ValueError):
        words = shlex.split(command)
        for word, following in zip(words, [*words[1:], ""], strict=True):
            flag, equals, value = word.lstrip("-").partition("=")
            if flag == "config" and word.startswith("-"):
                return value if equals else following
    return ""
