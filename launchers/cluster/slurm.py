"""Launches on Slurm through submitit: an array for each stage, whose tasks save and are requeued.

submitit asks Slurm for a signal before the time limit. Its handler calls `Training.checkpoint`,
which passes SIGTERM to the run, waits for the save, and lets submitit requeue the task. When a task
is pre-empted or requeued by hand, Slurm sends SIGTERM to all of its processes, the run included,
and requeues it by itself; a requeued task begins about two minutes later.
"""

import math
import shlex
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any

from launchers.cluster import child, records, task
from launchers.cluster.backend import State
from launchers.cluster.launch import Job, Launch, Stage

# A run saves after the program that is running, which may take minutes; at most a quarter of the
# time limit. Slurm sends the signal up to a minute earlier than it is asked to.
NOTICE_SECONDS = 600
_MINUTES = 60
_TRIES, _PAUSE_SECONDS = 4, 5.0
# What Slurm says when its controller is busy or restarts.
_BUSY = ("Socket timed out", "Unable to contact slurm controller", "temporarily unable")
_STATES = {
    State.WAITING: ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SUSPENDED"),
    State.RUNNING: ("RUNNING", "COMPLETING", "STAGE_OUT", "SIGNALING"),
    State.FAILED: ("FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE"),
    State.DONE: ("COMPLETED",),
}


def plan(launch: Launch) -> str:
    """The scripts for sbatch, each with the jobs of its array."""
    texts = []
    for stage in launch.stages:
        if not stage.jobs:
            continue
        before = [job.name for other in _earlier(launch, stage) for job in other.jobs]
        placeholder = f"afterok:<{len(before)} jobs of {', '.join(stage.after)}>"
        executor = _executor(launch, stage, placeholder if before else None)
        if len(stage.jobs) > 1:
            executor.parameters["map_count"] = len(stage.jobs)
        script = executor._make_submission_file_text(executor._submitit_command_str, "")
        tasks = [
            f"# {i}  {job.name}: {shlex.join(child.command(job, stage.resources))}"
            for i, job in enumerate(stage.jobs)
        ]
        texts.append("\n".join([f"# {stage.name}: sbatch", script.strip(), *tasks]))
    return "\n\n".join(texts)


def submit(launch: Launch, names: Sequence[str]) -> dict[str, str]:
    """Submits an array for each stage; {job's name: number}. All of them, or none.

    A stage waits for the jobs before it that are submitted here or run already.
    """
    if shutil.which("sbatch") is None:
        raise ValueError("sbatch is not found: give the command on a machine of the cluster")
    known = records.numbers(launch.workdir)
    active = states(launch, {job.name: known[job.name] for job in launch.jobs if job.name in known})
    numbers = {n: known[n] for n, s in active.items() if s in (State.WAITING, State.RUNNING)}
    made: dict[str, str] = {}
    try:
        for stage in launch.stages:
            jobs = [job for job in stage.jobs if job.name in set(names)]
            if not jobs:
                continue
            before = [job for other in _earlier(launch, stage) for job in other.jobs]
            waits = [numbers[job.name] for job in before if job.name in numbers]
            missing = [j for j in before if j.name not in numbers and not records.is_done(j)]
            if missing:
                raise ValueError(
                    f"stage {stage.name!r} waits for job {missing[0].name!r}, which is neither "
                    "done nor submitted"
                )
            executor = _executor(launch, stage, f"afterok:{':'.join(waits)}" if waits else None)
            tasks = [
                task.Training(
                    job.name,
                    child.command(job, stage.resources),
                    records.log_of(launch, job).absolute(),
                    records.code_of(launch, job).absolute(),
                    launch.retries,
                )
                for job in jobs
            ]
            for job in jobs:
                records.code_of(launch, job).unlink(missing_ok=True)
            submitted = _patiently(lambda e=executor, t=tasks: e.submit_array(t))
            made |= {job.name: x.job_id for job, x in zip(jobs, submitted, strict=True)}
            numbers |= made
    except ValueError:
        cancel(launch, made)
        raise
    return made


def states(launch: Launch, numbers: Mapping[str, str]) -> dict[str, State]:
    """{job's name: state}, as squeue says, which forgets jobs minutes after they have ended."""
    if not numbers:
        return {}
    lines = _slurm("squeue", "--me", "--array", "--states=all", "--noheader", "--format=%i %T")
    said = dict(line.split() for line in lines.splitlines())
    by_word = {word: state for state, words in _STATES.items() for word in words}
    return {
        name: by_word.get(said.get(number, ""), State.UNKNOWN) for name, number in numbers.items()
    }


def cancel(launch: Launch, numbers: Mapping[str, str]) -> None:
    """scancel: SIGTERM, and SIGKILL after the cluster's KillWait (30 s by default)."""
    active = (State.WAITING, State.RUNNING)
    ids = [numbers[n] for n, state in states(launch, numbers).items() if state in active]
    if ids:
        _slurm("scancel", *ids)


def logs(launch: Launch, job: Job) -> str:
    """The end of the job's log, which its first process writes."""
    return records.tail(records.log_of(launch, job))


def _earlier(launch: Launch, stage: Stage) -> list[Stage]:
    return [other for other in launch.stages if other.name in stage.after]


def _executor(launch: Launch, stage: Stage, dependency: str | None) -> Any:
    """submitit's executor with what a stage's jobs are given."""
    try:
        import submitit
    except ImportError:
        raise ValueError("--backend=slurm needs submitit: pip install 'agentrl[slurm]'") from None

    class Executor(submitit.SlurmExecutor):
        """Prints scripts on machines without Slurm, too."""

        @classmethod
        def affinity(cls) -> int:
            return 2

    resources, minutes = stage.resources, math.ceil(_MINUTES * stage.resources.hours)
    for name in ("image", "volume"):
        if getattr(resources, name) is not None:
            raise ValueError(
                f"{name}={getattr(resources, name)!r}: Slurm's jobs run in the environment of the "
                "command that submits them; leave it out"
            )
    if resources.is_tpu:
        raise ValueError(f"device={resources.device!r}: Slurm has no slices of TPUs")
    kind = f"{resources.device}:" if resources.device else ""
    local = ",".join(map(str, range(resources.devices)))
    variables = dict(resources.environment)
    if resources.nodes > 1 and resources.devices:
        # One process has all devices of its node; JAX takes one each under Slurm.
        variables = {"JAX_LOCAL_DEVICE_IDS": local} | variables
    given = {
        "job_name": f"{launch.name}.{stage.name}",
        "time": minutes,
        "signal_delay_s": min(NOTICE_SECONDS, 60 * minutes // 4),
        "nodes": resources.nodes,
        "ntasks_per_node": 1,
        "cpus_per_task": resources.cpus,
        # Since 22.05 srun does not take it from the script.
        "srun_args": [f"--cpus-per-task={resources.cpus}"],
        "mem": None
        if resources.memory_gib is None
        else f"{math.ceil(1024 * resources.memory_gib)}M",
        "gpus_per_node": f"{kind}{resources.devices}" if resources.devices else None,
        "partition": resources.queue,
        "account": resources.account,
        "qos": resources.qos,
        "constraint": resources.constraint,
        "dependency": dependency,
        "array_parallelism": launch.at_once or max(1, len(stage.jobs)),
        "setup": [f"export {n}={shlex.quote(v)}" for n, v in variables.items()] or None,
        "additional_parameters": {"requeue": True}
        # Jobs whose predecessor failed would otherwise wait for ever.
        | ({"kill-on-invalid-dep": "yes"} if dependency else {}),
    }
    executor = Executor(folder=launch.workdir / "slurm", max_num_timeout=launch.retries)
    executor.update_parameters(**{name: x for name, x in given.items() if x is not None})
    return executor


def _slurm(*command: str) -> str:
    """What a command of Slurm prints."""

    def call() -> str:
        return subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=60
        ).stdout

    return _patiently(call)


def _patiently(function: Any) -> Any:
    """Calls a function, again a few times if Slurm is busy. ValueError with what Slurm says."""
    from submitit.core.utils import FailedSubmissionError, UncompletedJobError

    for tries_left in reversed(range(_TRIES)):
        try:
            return function()
        except (subprocess.SubprocessError, FailedSubmissionError, UncompletedJobError) as error:
            said = str(getattr(error, "stderr", None) or error).strip()
        if not tries_left or not any(word in said for word in _BUSY):
            break
        time.sleep(_PAUSE_SECONDS)
    raise ValueError(f"Slurm: {(said.splitlines() or ['no answer'])[-1]}")
