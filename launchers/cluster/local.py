"""Launches on this machine: processes over its devices and CPUs.

`submit` stays until all jobs have ended. At SIGTERM and control-C it passes SIGTERM on, and the
jobs save and stop; a second signal ends them at once. There is no queue, so `hours` and memory
bound nothing here.
"""

import contextlib
import dataclasses
import os
import pathlib
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from launchers.cluster import child, records
from launchers.cluster.backend import State
from launchers.cluster.launch import Job, Launch, Resources, Stage

_POLL_SECONDS = 0.2
# What only clusters have.
_FOREIGN = ("queue", "account", "qos", "constraint", "image", "volume")


def plan(launch: Launch) -> str:
    """The commands, and what each of them is given."""
    _check(launch)
    lines = []
    for stage in launch.stages:
        resources = stage.resources
        given = [f"{resources.cpus} CPUs"]
        if resources.devices:
            given.append(f"{resources.devices} of CUDA_VISIBLE_DEVICES={','.join(_devices())}")
        after = f", after {', '.join(stage.after)}" if stage.after else ""
        bound = f"; at most {launch.at_once} at once" if launch.at_once else ""
        lines.append(f"# {stage.name}{after}: each job has {' and '.join(given)}{bound}")
        for job in stage.jobs:
            line = child.command(job, resources)
            variables = [f"{name}={value}" for name, value in _environment(resources).items()]
            lines.append(shlex.join([*(["env", *variables] if variables else []), *line]))
    return "\n".join(lines)


def submit(launch: Launch, names: Sequence[str]) -> dict[str, str]:
    """Runs the jobs of these names; returns when all have ended, in one way or another."""
    _check(launch)
    machine = _Machine(launch, [job for job in launch.jobs if job.name in set(names)])
    with machine.signals():
        while machine.waiting or machine.running:
            machine.begin()
            time.sleep(_POLL_SECONDS)
            machine.end()
    records.forget(launch.workdir, set(names) - machine.begun)
    return {name: x for name, x in records.numbers(launch.workdir).items() if name in names}


def states(launch: Launch, numbers: Mapping[str, str]) -> dict[str, State]:
    """{job's name: state}, by the processes of this machine."""
    return {name: _Number.read(number).state() for name, number in numbers.items()}


def cancel(launch: Launch, numbers: Mapping[str, str]) -> None:
    """Sends SIGTERM to the sweep that runs the jobs; if it is gone, to what it left running."""
    found = [_Number.read(number) for number in numbers.values()]
    sweeps = {number.sweep for number in found if number.here and number.sweep.alive()}
    left = {n.job for n in found if n.here and n.job and n.sweep not in sweeps and n.job.alive()}
    for process in sweeps | left:
        os.kill(process.pid, signal.SIGTERM)


def logs(launch: Launch, job: Job) -> str:
    """The end of the job's log."""
    return records.tail(records.log_of(launch, job))


def _check(launch: Launch) -> None:
    for stage in launch.stages:
        resources = stage.resources
        for name in _FOREIGN:
            if getattr(resources, name) is not None:
                raise ValueError(
                    f"{name}={getattr(resources, name)!r}: this machine has none; leave it out, or "
                    "give --backend"
                )
        if resources.nodes > 1:
            raise ValueError(f"nodes={resources.nodes}: this machine is one; give --backend")
        if resources.devices > len(_devices()):
            raise ValueError(
                f"devices={resources.devices}: this machine has {len(_devices())} GPUs that may be "
                "used ($CUDA_VISIBLE_DEVICES, or else what nvidia-smi lists)"
            )


def _devices() -> list[str]:
    """The GPUs of this machine, as CUDA_VISIBLE_DEVICES names them."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is not None:
        return [name for name in given.split(",") if name]
    if shutil.which("nvidia-smi") is None:
        return []
    query = ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]
    listed = subprocess.run(query, capture_output=True, text=True, timeout=60, check=False)
    return listed.stdout.split() if listed.returncode == 0 else []


def _environment(resources: Resources) -> dict[str, str]:
    """Variables of a job, but for its choice of devices."""
    on_cpu = not resources.devices and not resources.is_tpu
    return {**({"JAX_PLATFORMS": "cpu"} if on_cpu else {}), **resources.environment}


@dataclasses.dataclass(frozen=True)
class _Process:
    """A process, and when it was started: its number may be another's later."""

    pid: int
    started: str

    @staticmethod
    def of(pid: int) -> "_Process":
        try:
            status = pathlib.Path(f"/proc/{pid}/stat").read_text()
        except OSError:  # it has ended, or the system has no such files
            return _Process(pid, "-")
        return _Process(pid, status.rpartition(")")[2].split()[19])

    def alive(self) -> bool:
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return _Process.of(self.pid) == self


class _Number(NamedTuple):
    """What stands for a scheduler's number: the sweep's process, and the job's once it runs."""

    here: bool
    sweep: _Process
    job: _Process | None

    @staticmethod
    def write(job: int | None = None) -> str:
        processes = [_Process.of(pid) for pid in (os.getpid(), job) if pid is not None]
        return " ".join([socket.gethostname(), *(f"{p.pid}:{p.started}" for p in processes)])

    @staticmethod
    def read(text: str) -> "_Number":
        host, *words = text.split()
        pairs = (word.partition(":") for word in words)
        found = [_Process(int(pid), started) for pid, _, started in pairs]
        if not found:  # of another back end
            return _Number(False, _Process(0, "-"), None)
        return _Number(host == socket.gethostname(), found[0], found[1] if found[1:] else None)

    def state(self) -> State:
        if not self.here:
            return State.UNKNOWN
        if self.job is not None:
            return State.RUNNING if self.job.alive() else State.UNKNOWN
        return State.WAITING if self.sweep.alive() else State.UNKNOWN


class _Running(NamedTuple):
    process: subprocess.Popen
    stage: Stage
    job: Job
    devices: tuple[str, ...]


class _Machine:
    """Jobs that wait and jobs that run, and what is free."""

    def __init__(self, launch: Launch, jobs: Sequence[Job]):
        self.waiting = {job.name: job for job in jobs}
        self.running: dict[str, _Running] = {}
        self.begun: set[str] = set()
        self._launch = launch
        self._stages = {job.name: stage for stage in launch.stages for job in stage.jobs}
        self._by_name = {stage.name: stage for stage in launch.stages}
        self._codes: dict[str, int] = {}
        self._devices = _devices() if any(s.resources.devices for s in launch.stages) else []
        self._cpus = os.cpu_count() or 1
        launch.workdir.mkdir(parents=True, exist_ok=True)
        records.remember(launch.workdir, dict.fromkeys(self.waiting, _Number.write()))

    @contextlib.contextmanager
    def signals(self) -> Iterator[None]:
        """Passes SIGTERM and SIGINT on as SIGTERM, and begins no more jobs."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = (signal.SIGTERM, signal.SIGINT)
        before = {number: signal.signal(number, self._stop) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self, number: int, frame: object) -> None:
        self.waiting.clear()
        for running in self.running.values():
            running.process.terminate()

    def begin(self) -> None:
        """Begins the jobs whose turn it is and for which there is room."""
        for job in list(self.waiting.values()):
            stage = self._stages[job.name]
            missing = self._missing(stage)
            if any(name in self.waiting or name in self.running for name in missing):
                continue
            if missing:
                _say(job, f"not begun: {stage.name} waits for {missing[0]}")
                self.waiting.pop(job.name, None)
            elif self._has_room(stage.resources):
                self._start(stage, job)

    def _missing(self, stage: Stage) -> list[str]:
        """Jobs that a stage waits for, and that have not ended well."""
        before = (job for name in stage.after for job in self._by_name[name].jobs)
        return [
            job.name
            for job in before
            if (self._codes[job.name] if job.name in self._codes else not records.is_done(job))
        ]

    def _has_room(self, resources: Resources) -> bool:
        others = self.running.values()
        if self._launch.at_once and len(others) >= self._launch.at_once:
            return False
        if resources.is_tpu:
            return not others
        used = sum(other.stage.resources.cpus for other in others)
        free = len(self._devices) - sum(len(other.devices) for other in others)
        return not others or (used + resources.cpus <= self._cpus and resources.devices <= free)

    def _start(self, stage: Stage, job: Job) -> None:
        taken = {device for other in self.running.values() for device in other.devices}
        free = [device for device in self._devices if device not in taken]
        devices = tuple(free[: stage.resources.devices])
        environment = _environment(stage.resources)
        if devices:
            environment = {"CUDA_VISIBLE_DEVICES": ",".join(devices)} | environment
        records.code_of(self._launch, job).unlink(missing_ok=True)
        process = child.start(
            child.command(job, stage.resources),
            records.log_of(self._launch, job),
            environment,
            # Control-C in a terminal reaches all processes of its group, and twice is at once.
            start_new_session=True,
        )
        self.running[job.name] = _Running(process, stage, job, devices)
        self.begun.add(job.name)
        if self.waiting.pop(job.name, None) is None:  # a signal arrived in between
            process.terminate()
        records.remember(self._launch.workdir, {job.name: _Number.write(process.pid)})
        _say(job, "begins")

    def end(self) -> None:
        """Takes leave of jobs that have ended."""
        for name, running in list(self.running.items()):
            code = running.process.poll()
            if code is None:
                continue
            child.write_code(records.code_of(self._launch, running.job), code)
            self._codes[name] = code
            del self.running[name]
            if code == 0 or child.stopped(code):
                _say(running.job, "stopped and saved" if code else "done")
            else:
                _say(running.job, f"failed: {records.why(self._launch, running.job)}")


def _say(job: Job, what: str) -> None:
    print(f"{job.name}: {what}", file=sys.stderr, flush=True)
