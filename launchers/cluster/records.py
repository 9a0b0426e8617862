"""What a launch leaves in its directory, and what is read there, whichever back end it has.

`launch.json` is the description, so that --status and its like need no other flag; `jobs.json` has
the scheduler's numbers; `logs/` has the output and the exit code of each job, by its name, where
this package started its process.
"""

import dataclasses
import json
import pathlib
import signal
from collections.abc import Collection, Mapping

from launchers.cluster.launch import Job, Launch, Resources, Stage

_LAUNCH, _NUMBERS = "launch.json", "jobs.json"
# The end of a log in which its message is looked for.
_TAIL_BYTES = 65_536


def write(launch: Launch, backend: str) -> None:
    """Writes the description, in the place of an earlier one."""
    from agentrl.run.workdir import write_json

    launch.workdir.mkdir(parents=True, exist_ok=True)
    content = dataclasses.asdict(launch) | {"backend": backend}
    write_json(launch.workdir / _LAUNCH, json.loads(json.dumps(content, default=str)))


def read(workdir: pathlib.Path) -> tuple[Launch, str]:
    """The launch of a directory, and the name of its back end. ValueError if there is none."""
    path = workdir / _LAUNCH
    if not path.exists():
        raise ValueError(f"{workdir} holds no launch (no {_LAUNCH}); give --configs or --launch")
    content = json.loads(path.read_text())
    backend = content.pop("backend")
    stages = tuple(
        Stage(
            stage["name"],
            tuple(
                Job(job["name"], tuple(job["arguments"]), pathlib.Path(job["workdir"]), job["runs"])
                for job in stage["jobs"]
            ),
            Resources(**stage["resources"]),
            tuple(stage["after"]),
        )
        for stage in content.pop("stages")
    )
    # The directory may have been moved; runs are where they were.
    return Launch(**content | {"workdir": workdir, "stages": stages}), backend


def numbers(workdir: pathlib.Path) -> dict[str, str]:
    """{job's name: the scheduler's newest number of it}."""
    path = workdir / _NUMBERS
    return json.loads(path.read_text()) if path.exists() else {}


def remember(workdir: pathlib.Path, new: Mapping[str, str]) -> None:
    """Adds the scheduler's numbers of jobs, by name, to those that the directory has."""
    from agentrl.run.workdir import write_json

    write_json(workdir / _NUMBERS, numbers(workdir) | dict(new))


def forget(workdir: pathlib.Path, names: Collection[str]) -> None:
    """Drops the numbers of jobs that nobody will begin."""
    from agentrl.run.workdir import write_json

    kept = {name: number for name, number in numbers(workdir).items() if name not in names}
    write_json(workdir / _NUMBERS, kept)


def log_of(launch: Launch, job: Job) -> pathlib.Path:
    """The output of a job, of all its beginnings."""
    return launch.workdir / "logs" / f"{job.name}.log"


def code_of(launch: Launch, job: Job) -> pathlib.Path:
    """The file of a job's exit code; it is missing while the job runs, or if it was killed."""
    return launch.workdir / "logs" / f"{job.name}.exit"


def exit_code(launch: Launch, job: Job) -> int | None:
    """The exit code of a job's newest beginning, if it has one."""
    path = code_of(launch, job)
    return int(path.read_text()) if path.exists() else None


def tail(path: pathlib.Path) -> str:
    """The end of a log; "" without one."""
    if not path.exists():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        return file.read().decode(errors="replace")


def why(launch: Launch, job: Job) -> str:
    """Why a job failed that this package started: what killed it, or what it said."""
    code = exit_code(launch, job)
    if code is None:
        return "ended without an exit code: killed, or its machine failed"
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    newest = f"\n{tail(log_of(launch, job))}".rpartition("\n$ ")[2].partition("\n")[2]
    return last_error(newest) or f"exit code {code}"


def last_error(log: str) -> str:
    """The last line of a log that begins with "error:", or else its last line."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("error:")]
    return (errors or lines or [""])[-1]


def is_done(job: Job) -> bool:
    """Whether all runs of a job have their last checkpoint and their last evaluation."""
    from agentrl.run import evaluations

    return bool(job.runs) and all(
        evaluations.finished(job.workdir / directory, updates)
        for directory, updates in job.runs.items()
    )
