"""What became of the jobs of a launch, and which of them are submitted."""

import dataclasses
import functools
import importlib
import importlib.util
import json
import pathlib
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from launchers.cluster import check, records
from launchers.cluster.backend import Backend, State
from launchers.cluster.launch import Job, Launch
from launchers.cluster.remote import STOPPED_CODE

BACKENDS = ("local", "slurm", "kubernetes", "skypilot")
_ACTIVE = (State.WAITING, State.RUNNING)
_POLL_SECONDS = 30.0


class Report(NamedTuple):
    """What became of a job, by its run directory and its scheduler.

    update: the last in its metrics, of all its runs together. message: why it failed, or what it
    waits for.
    """

    job: Job
    state: State
    update: int
    message: str

    @property
    def updates(self) -> int:
        """The update at which it ends."""
        return sum(self.job.runs.values())


def backend(name: str) -> Backend:
    """The back end of a name of `BACKENDS`."""
    return importlib.import_module(f"launchers.cluster.{name}")


def reports(launch: Launch, name: str) -> list[Report]:
    """A report of every job, in their order.

    name: of the back end.

    Raises:
      ValueError: the scheduler does not answer.
    """
    numbers = records.numbers(launch.workdir)
    known = {job.name: numbers[job.name] for job in launch.jobs if job.name in numbers}
    said = backend(name).states(launch, known) if known else {}
    logs = functools.partial(backend(name).logs, launch)
    out: dict[str, Report] = {}
    for stage in launch.stages:
        before = [out[job.name] for s in launch.stages if s.name in stage.after for job in s.jobs]
        broken = [r.job.name for r in before if r.state in (State.FAILED, State.STOPPED)]
        for job in stage.jobs:
            state = said.get(job.name, State.UNKNOWN)
            waits_for = broken[0] if broken else ""
            out[job.name] = _report(launch, job, state, waits_for, job.name in known, logs)
    return list(out.values())


def _report(
    launch: Launch,
    job: Job,
    said: State,
    waits_for: str,
    submitted: bool,
    logs: Callable[[Job], str],
) -> Report:
    """said: by the scheduler. waits_for: a job before it that did not end well, or ""."""
    update, code = _update(job), records.exit_code(launch, job)
    has_log = records.log_of(launch, job).exists()
    if records.is_done(job):
        return Report(job, State.DONE, update, "")
    if said in _ACTIVE:
        return Report(job, said, update, "")
    if code is None and not has_log:
        if waits_for:
            return Report(job, State.STOPPED, update, f"not begun: it waits for {waits_for}")
        if said is State.FAILED:  # its log is elsewhere
            return Report(job, said, update, records.last_error(logs(job)))
        state = said if said is State.DONE else State.STOPPED
        return Report(job, state, update, "" if submitted else "not submitted")
    if code == 0 or (code == STOPPED_CODE and said is not State.FAILED):
        return Report(job, State.STOPPED, update, "saved")
    return Report(job, State.FAILED, update, records.why(launch, job))


def _update(job: Job) -> int:
    """The last update in the metrics of a job's runs, added up."""
    total = 0
    for directory in job.runs:
        lines = records.tail(job.workdir / directory / "metrics.jsonl").splitlines()
        for line in reversed(lines):
            try:
                total += int(json.loads(line)["update"])
                break
            except (ValueError, KeyError, TypeError):  # not written to its end, or damaged
                continue
    return total


def due(launch: Launch, known: Sequence[Report], *, retry: bool) -> list[Job]:
    """Jobs that a submission is for: neither done, nor submitted, nor failed.

    retry: those that failed, too. Jobs that wait for a failed one are left out with it.
    """
    states = {report.job.name: report.state for report in known}
    wanted = (State.STOPPED, State.UNKNOWN, *((State.FAILED,) if retry else ()))
    out: list[Job] = []
    for stage in launch.stages:
        before = [job for s in launch.stages if s.name in stage.after for job in s.jobs]
        well = (State.DONE, *_ACTIVE)
        if all(states[job.name] in well or job in out for job in before):
            out += [job for job in stage.jobs if states[job.name] in wanted]
    return out


def only(launch: Launch, jobs: Sequence[Job]) -> Launch:
    """The launch with these of its jobs alone."""
    stages = (
        dataclasses.replace(stage, jobs=tuple(job for job in stage.jobs if job in jobs))
        for stage in launch.stages
    )
    return dataclasses.replace(launch, stages=tuple(stages))


def carry_out(launch: Launch, name: str, *, retry: bool = False) -> list[Report]:
    """Checks a launch, submits what is due, and says what became of its jobs.

    With the back end "local" it returns when all jobs have ended. A launch that is given again
    leaves alone what is done, runs or waits, and, without `retry`, what failed.

    Raises:
      ValueError: a config is invalid, before anything is submitted; or the scheduler refuses.
    """
    launch = check.checked(launch)
    jobs = due(launch, reports(launch, name), retry=retry)
    backend(name).plan(only(launch, jobs))  # refuses what the back end does not have
    records.write(launch, name)
    if jobs:
        numbers = backend(name).submit(launch, [job.name for job in jobs])
        records.remember(launch.workdir, numbers)
    return reports(launch, name)


def ended(launch: Launch, name: str) -> list[Report]:
    """`carry_out`, those that failed included, and waits until no job runs or waits any more."""
    known = carry_out(launch, name, retry=True)
    while any(report.state in _ACTIVE for report in known):
        time.sleep(_POLL_SECONDS)
        known = reports(launch, name)
    return known


def launch_of(path: pathlib.Path) -> Launch:
    """What `get_launch()` of a Python file returns. ValueError if it does not return a launch."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.exists():
        raise ValueError(f"--launch={path}: expected a file of Python with get_launch()")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not callable(getattr(module, "get_launch", None)):
        raise ValueError(f"--launch={path}: it has no get_launch()")
    launch = module.get_launch()
    if not isinstance(launch, Launch):
        raise ValueError(f"--launch={path}: get_launch() returned {launch!r}, expected a Launch")
    return launch
