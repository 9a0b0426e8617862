"""The directory of a run: one process writes it, for one config."""

import contextlib
import fcntl
import json
import os
import pathlib
import platform
import time
from collections.abc import Iterator
from typing import Any

import ml_collections

from agentrl.config import bind as configs
from agentrl.learner.optimizer import AUTO
from agentrl.run import checkpoint, evaluations, files, processes
from agentrl.run.files import RunError, write_json
from agentrl.run.status import PROCESS

# Keys that may differ when a run resumes, besides config.mesh and config.trajectories.
RESUMABLE = ("updates", "env_steps", "learner.microbatch", "writers")
# Tries of the lock, 0.1 s apart: `status.is_locked` holds it for an instant.
TRIES = 5


@contextlib.contextmanager
def alone(workdir: pathlib.Path, doing: str = "training") -> Iterator[None]:
    """Creates the directory and locks it. RunError if another process holds the lock.

    The kernel releases the lock when the process ends in any way. doing: what the lock is for.
    """
    workdir.mkdir(parents=True, exist_ok=True)
    directory = os.open(workdir, os.O_RDONLY)
    try:
        if not _locks(directory):
            raise RunError(
                f"another process is {doing} in {workdir}; wait for it, or use another --workdir"
            )
        yield
    finally:
        os.close(directory)


def _locks(directory: int) -> bool:
    for left in reversed(range(TRIES)):
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(0.1 * (left > 0))
    return False


@contextlib.contextmanager
def _noted(workdir: pathlib.Path) -> Iterator[None]:
    """Keeps process.json, by which `status.status` tells how a run ended: host, process id, when it
    started and ended (None while it runs, and if it is killed), and the error that ended it.
    """
    note = {"host": platform.node(), "pid": os.getpid(), "started": time.time()}
    note |= {"ended": None, "error": None}
    write_json(workdir / PROCESS, note)
    try:
        yield
    except BaseException as error:
        text = " ".join(str(error).split())
        known = isinstance(error, RunError | ValueError) and text
        note["error"] = text if known else f"{type(error).__name__}: {text}".removesuffix(": ")
        raise
    finally:
        with contextlib.suppress(OSError):  # a full disk, which is not what ended the run
            write_json(workdir / PROCESS, note | {"ended": time.time()})


def _claim(workdir: pathlib.Path, config: ml_collections.ConfigDict) -> None:
    """Checks that the directory is empty or contains a run of this config.

    `updates` may increase, of a run of SFT alone together with `warm_start.updates`, and a run may
    resume on another mesh and in other microbatches. A run that ended before its first result has
    nothing to lose: any config may take its place.
    """
    path = workdir / "config.json"
    content = _content(config)
    if path.exists():
        stored = files.read_json(path)
        metrics, folders = workdir / "metrics.jsonl", ("checkpoints", "eval")
        results = metrics.exists() and metrics.stat().st_size > 0
        results = results or any((workdir / name).exists() for name in folders)
        before = stored if results else content
        ours, theirs = dict(configs.flat(content)), dict(configs.flat(before))
        # Where all updates are warm start, two keys say how many there are.
        both = (ours, theirs)
        only_sft = all(x.get("warm_start.updates", 0) >= x.get("updates", 1) for x in both)
        free = {*RESUMABLE, "warm_start.updates"} if only_sft else {*RESUMABLE}
        changed = [
            f"{key} was {theirs.get(key)!r} and is now {ours.get(key)!r}"
            for key in sorted(ours.keys() | theirs.keys())
            if ours.get(key) != theirs.get(key)
            and not (key in free or key.startswith(("mesh.", "trajectories.")))
        ]
        if changed:
            raise RunError(
                f"{workdir} holds a run of another config ({'; '.join(changed[:3])}); use another "
                f"--workdir, or the same config to resume"
            )
    elif any(entry != files.temporary_of(path) for entry in workdir.iterdir()):
        raise RunError(f"{workdir} is not empty and holds no run; use another --workdir")
    store(workdir, config)


def store(workdir: pathlib.Path, config: ml_collections.ConfigDict) -> None:
    """Writes config.json, from which the run is resumed and its policy read back."""
    write_json(workdir / "config.json", _content(config))


def _content(config: ml_collections.ConfigDict) -> dict[str, Any]:
    """The config as it is written. RunError for what cannot be, such as a function inside one."""
    try:
        return json.loads(json.dumps(config.to_dict()))
    except TypeError as error:
        wrong = [(key, value) for key, value in configs.flat(config.to_dict()) if callable(value)]
        if not wrong:
            raise
        key, value = wrong[0]
        raise RunError(
            f"config.{key}={value!r} cannot be written to config.json: define the function at the "
            "top level of a module on the Python path, and give it to section(...) from there"
        ) from error


def opened(workdir: pathlib.Path, config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    """The config, with the microbatch of the run in the directory in the place of "auto".

    A resumed run then computes what the uninterrupted one would, whatever memory is free.

    Raises:
      RunError: no run can be written there (`files.check`), or what is there cannot be read.
      CheckpointError: as `checkpoint.check`.
    """
    with _together():
        files.check(workdir)
        checkpoint.check(workdir / "checkpoints")
        evaluations.pending(workdir, update=0)
        path = workdir / "config.json"
        if config.learner.microbatch != AUTO or not path.exists():
            return config
        stored = files.read_json(path, ["learner"])["learner"]
        if not isinstance(stored, dict) or "microbatch" not in stored:
            raise RunError(f"{path} has no learner.microbatch; use another --workdir")
    config = ml_collections.ConfigDict(config.to_dict())
    with config.ignore_type():
        config.learner.microbatch = stored["microbatch"]
    return config


@contextlib.contextmanager
def claimed(workdir: pathlib.Path, config: ml_collections.ConfigDict) -> Iterator[None]:
    """`alone`, `_claim` and `_noted` by the first process, for all of them."""
    with contextlib.ExitStack() as held:
        with _together():
            if processes.is_first():
                held.enter_context(alone(workdir))
                _claim(workdir, config)
                held.enter_context(_noted(workdir))
        yield


@contextlib.contextmanager
def _together() -> Iterator[None]:
    """If RunError or CheckpointError is raised inside in any process, all raise one."""
    refusal = None
    try:
        yield
    except (RunError, checkpoint.CheckpointError) as error:
        refusal = error
    if processes.any_of(refusal is not None):
        raise refusal or RunError("another process has refused to start; see what it says")
