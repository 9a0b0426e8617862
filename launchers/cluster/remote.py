"""What the back ends for Kubernetes and SkyPilot share: names, directories, stages in their turn.

Neither of the two has jobs that wait for other jobs, or a number of a launch's jobs that may run
at once. Here the command that submits waits instead, and submits what may begin. It holds nothing
that is needed afterwards: names are made from the launch's directory and the job's name, so the
same command, given again, finds what runs and goes on.
"""

import hashlib
import pathlib
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import yaml

from launchers.cluster.backend import State
from launchers.cluster.launch import Job, Launch, Resources, Stage

# Exit code of a run that has saved because it was told to: EX_TEMPFAIL of sysexits.h.
STOPPED_CODE = 75
PORT = 8476
POLL_SECONDS = 30.0

_ACTIVE = (State.WAITING, State.RUNNING)


def launch_id(launch: Launch) -> str:
    """Eight hexadecimal digits: the launches of one directory are one."""
    return hashlib.sha256(str(launch.workdir).encode()).hexdigest()[:8]


def object_name(launch: Launch, job: Job) -> str:
    """A DNS label of at most 40 signs, one for each job of each launch.

    Schedulers append up to 20 signs to it for Jobs and Pods, which may have 63.
    """
    words = re.sub(r"[^a-z0-9]+", "-", job.name.lower())
    if not words[0].isalpha():
        words = f"job-{words}"
    digest = hashlib.sha256(f"{launch.workdir}\n{job.name}".encode()).hexdigest()[:8]
    return f"{words[:31].strip('-')}-{digest}"


def volume(resources: Resources) -> tuple[str, pathlib.PurePosixPath]:
    """(name, path) of the volume of the run directories. ValueError if there is none."""
    if resources.volume is None:
        raise ValueError(
            "volume is missing: run directories have to outlive the machines; expected NAME:/PATH, "
            "such as runs:/mnt/runs"
        )
    name, _, path = resources.volume.rpartition(":")
    return name, pathlib.PurePosixPath(path)


def command(python: str, job: Job, resources: Resources) -> list[str]:
    """The command of a job's only process, with its run directory on the volume."""
    name, path = volume(resources)
    workdir = path / job.workdir.as_posix()  # an absolute directory replaces `path`
    if not workdir.is_relative_to(path) or ".." in workdir.parts:
        raise ValueError(
            f"workdir={str(job.workdir)!r}: expected a directory below {path}, where the volume "
            f"{name!r} is, or a relative one"
        )
    arguments = [*job.arguments, f"--workdir={workdir}", f"--stopped_code={STOPPED_CODE}"]
    return [python, "-m", "launchers.train", *arguments]


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as it is."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def dump(launch: Launch, objects: Iterable[tuple[Stage, Job, dict[str, Any]]]) -> str:
    """What is submitted for each job, as YAML documents."""
    documents = (
        _heading(launch, stage, job) + yaml.dump(body, Dumper=_Dumper, sort_keys=False, width=100)
        for stage, job, body in objects
    )
    return "---\n".join(documents)


def _heading(launch: Launch, stage: Stage, job: Job) -> str:
    """Lines of comments above a job in a plan: what it is, and when it is submitted."""
    lines = [f"# {stage.name}: {job.name}"]
    if stage.after:
        lines.append(f"# submitted when all jobs of {', '.join(stage.after)} have ended well")
    if launch.at_once:
        lines.append(
            f"# submitted when fewer than {launch.at_once} jobs of this launch run or wait"
        )
    return "".join(f"{line}\n" for line in lines)


class _Turns:
    """Which jobs may begin."""

    def __init__(self, launch: Launch, names: Sequence[str], now: Mapping[str, State]):
        waiting = {job.name: (stage, job) for stage in launch.stages for job in stage.jobs}
        self.waiting = {name: x for name, x in waiting.items() if name in set(names)}
        self._launch = launch
        # Jobs that the caller left out and the cluster does not know.
        self._ended = {name for name in waiting if name not in self.waiting and name not in now}

    def may_begin(self, stage: Stage, now: Mapping[str, State]) -> bool:
        """Whether all jobs that a stage waits for have ended well. ValueError if they cannot."""
        before = [
            job.name
            for other in self._launch.stages
            if other.name in stage.after
            for job in other.jobs
            if job.name not in self._ended
        ]
        submitted = [name for name in before if name not in self.waiting]
        for name in submitted:
            if now.get(name, State.UNKNOWN) in (State.FAILED, State.UNKNOWN):
                raise ValueError(
                    f"job {name!r} failed or was cancelled, and stage {stage.name!r} waits for it: "
                    f"{len(self.waiting)} jobs are not submitted; the same command submits them"
                )
        return all(name in submitted and now[name] is State.DONE for name in before)


def submit_in_turn(
    launch: Launch,
    names: Sequence[str],
    submit: Callable[[Stage, Job], str],
    states: Callable[[], Mapping[str, State]],
) -> dict[str, str]:
    """Submits jobs when their stage has its turn and `launch.at_once` has room.

    Returns when all are submitted, which is at once if nothing waits. A job that runs already is
    not submitted again. Jobs of an earlier stage that are neither in `names` nor known to the
    cluster count as ended well: who left them out knows.

    Args:
      names: of the jobs to submit.
      submit: submits one, unless it runs, and returns its number.
      states: of all jobs of the launch that the cluster knows.

    Raises:
      ValueError: a job failed that others wait for; what was submitted goes on.
    """
    now = dict(states())
    turns = _Turns(launch, names, now)
    numbers: dict[str, str] = {}
    told = 0
    while True:
        room = launch.at_once - sum(state in _ACTIVE for state in now.values())
        for name, (stage, job) in list(turns.waiting.items()):
            running = now.get(name) in _ACTIVE
            full = launch.at_once and room <= 0
            if not running and (full or not turns.may_begin(stage, now)):
                continue
            numbers[name] = submit(stage, job)
            room -= not running
            now[name] = State.WAITING
            del turns.waiting[name]
        if not turns.waiting:
            return numbers
        if len(turns.waiting) != told:
            told = len(turns.waiting)
            print(
                f"{len(numbers)} jobs submitted, {told} wait for others; this command submits them "
                "in their turn, and may be ended and given again",
                file=sys.stderr,
            )
        time.sleep(POLL_SECONDS)
        now = dict(states())
