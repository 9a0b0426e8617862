"""SkyPilot: one managed job for each job, submitted with SkyPilot's client.

SkyPilot finds machines, installs, and begins a job again, from its directory, when its machines are
taken away (there is no bound: `retries` of a launch is not used). `recover_on_exit_codes` does the
same when a run was told to stop and has saved. A job that fails by itself is not repeated. There is
no time limit (`hours` is not used): nobody waits in a queue for rented machines.

SkyPilot's pipelines run one task after the other, and the machines of one at a time. Stages have
many jobs, so they are managed jobs of their own, submitted in their turn (`remote`).
"""

import contextlib
import io
import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from agentrl.devices.targets import GPUS
from launchers.cluster import remote, slices
from launchers.cluster.backend import State
from launchers.cluster.launch import Job, Launch, Resources, Stage

LOG_LINES = 1000

_GPU_NAMES = {"a100": "A100-80GB", "h100": "H100", "h200": "H200"}
assert _GPU_NAMES.keys() == GPUS.keys()
# Google's names of slices: of v4 and v5p they have the number of cores, two to a chip.
_SLICE_NAMES = {"v4": ("tpu-v4", 2), "v5e": ("tpu-v5litepod", 1)}
_SLICE_NAMES |= {"v5p": ("tpu-v5p", 2), "v6e": ("tpu-v6e", 1)}
_PYTHON = "~/agentrl-venv/bin/python"
_STATES = {
    "PENDING": State.WAITING,
    "SUBMITTED": State.WAITING,
    "STARTING": State.WAITING,
    "RECOVERING": State.WAITING,
    "RUNNING": State.RUNNING,
    "WINDING_DOWN": State.RUNNING,
    "SUCCEEDED": State.DONE,
    # Told to stop by `cancel`: may be submitted again.
    "CANCELLING": State.UNKNOWN,
    "CANCELLED": State.UNKNOWN,
}


def objects(launch: Launch) -> Iterator[tuple[Stage, Job, dict[str, Any]]]:
    """Every job of the launch with its task."""
    for stage in launch.stages:
        for job in stage.jobs:
            yield stage, job, _task(launch, job, stage.resources)


def plan(launch: Launch) -> str:
    """The tasks as YAML documents; `sky jobs launch` takes each of them in a file."""
    return remote.dump(launch, objects(launch))


def submit(launch: Launch, names: Sequence[str]) -> dict[str, str]:
    """Launches managed jobs; {job's name: SkyPilot's number}.

    One that runs is left alone. With stages that wait, or `at_once`, it returns when the last is
    submitted.
    """
    tasks = {job.name: task for _, job, task in objects(launch)}
    sky = _sky()

    def start(stage: Stage, job: Job) -> str:
        there = _known(sky, launch).get(job.name)
        if there and there[1] in (State.WAITING, State.RUNNING):
            return there[0]

        def launch_it() -> Any:
            task = sky.Task.from_yaml_config(tasks[job.name])
            return sky.get(sky.jobs.launch(task, name=task.name))

        numbers, _ = _answer(sky, launch_it)
        return str(numbers[0])

    def now() -> dict[str, State]:
        return {name: state for name, (_, state) in _known(sky, launch).items()}

    return remote.submit_in_turn(launch, names, start, now)


def states(launch: Launch, numbers: Mapping[str, str]) -> dict[str, State]:
    """{job's name: state}."""
    known = _known(_sky(), launch)
    return {name: known[name][1] if name in known else State.UNKNOWN for name in numbers}


def cancel(launch: Launch, numbers: Mapping[str, str]) -> None:
    """Cancels managed jobs; what they wrote into a bucket is uploaded first."""
    sky = _sky()
    if numbers:
        given = [int(number) for number in numbers.values()]
        with contextlib.suppress(_NoControllerError):
            _answer(sky, lambda: sky.get(sky.jobs.cancel(job_ids=given, graceful=True)))


def logs(launch: Launch, job: Job) -> str:
    """The newest lines of the job."""
    sky = _sky()
    known = _known(sky, launch).get(job.name)
    if known is None:
        return ""
    lines = io.StringIO()
    options = {"follow": False, "tail": LOG_LINES, "output_stream": lines}
    _answer(sky, lambda: sky.jobs.tail_logs(job_id=int(known[0]), **options))
    return lines.getvalue()


def _task(launch: Launch, job: Job, resources: Resources) -> dict[str, Any]:
    for name in ("account", "constraint"):
        if getattr(resources, name):
            raise ValueError(f"{name}={getattr(resources, name)!r}: SkyPilot has no such thing")
    if resources.qos not in (None, "spot"):
        raise ValueError(f"qos={resources.qos!r}: expected spot, or none, for SkyPilot")
    volume, path = remote.volume(resources)
    if "://" in volume:
        # A bucket as it is has no appending and renaming, which runs need; the cache has both.
        mounted = {"file_mounts": {str(path): {"source": volume, "mode": "MOUNT_CACHED"}}}
    else:
        mounted = {"volumes": {str(path): volume}}
    setup = {} if resources.image else {"setup": _setup(resources)}
    return {
        "name": remote.object_name(launch, job),
        # The directory of the command that submits: a checkout, with its configs.
        "workdir": ".",
        "num_nodes": resources.nodes,
        "resources": _resources(resources),
        **mounted,
        "envs": dict(resources.environment),
        "api_server_access": False,
        **setup,
        "run": _run(job, resources),
    }


def _resources(resources: Resources) -> dict[str, Any]:
    wanted: dict[str, Any] = {"cpus": f"{resources.cpus}+"}
    if resources.queue:
        wanted["infra"] = resources.queue
    if resources.memory_gib is not None:
        wanted["memory"] = f"{math.ceil(resources.memory_gib)}+"
    if resources.is_tpu:
        wanted["accelerators"] = {_slice_name(resources.device): 1}
    elif resources.devices:
        if resources.device not in _GPU_NAMES:
            raise ValueError(
                f"device={resources.device!r}: expected one of {', '.join(_GPU_NAMES)}; SkyPilot "
                "does not choose a GPU by itself"
            )
        wanted["accelerators"] = {_GPU_NAMES[resources.device]: resources.devices}
    if resources.image:
        wanted["image_id"] = f"docker:{resources.image}"
    wanted["use_spot"] = resources.qos == "spot"
    wanted["job_recovery"] = {
        "max_restarts_on_errors": 0,
        "recover_on_exit_codes": [remote.STOPPED_CODE],
    }
    return wanted


def _slice_name(device: str) -> str:
    found = slices.find(device)
    prefix, factor = _SLICE_NAMES[found.kind]
    return f"{prefix}-{found.hosts * found.chips * factor}"


def _setup(resources: Resources) -> str:
    jax = "jax[tpu]" if resources.is_tpu else "jax[cuda12]" if resources.devices else "jax"
    return (
        "set -e\n"
        "python3 -m pip install --quiet uv\n"
        "python3 -m uv venv --python 3.11 --allow-existing ~/agentrl-venv\n"
        f"python3 -m uv pip install --python {_PYTHON} . {shlex.quote(jax)}\n"
    )


def _run(job: Job, resources: Resources) -> str:
    python = "python" if resources.image else _PYTHON
    words = remote.command("python", job, resources)[1:]
    # The home directory is the shell's to find.
    line = f"{python} {shlex.join(words)}"
    if resources.is_tpu:
        if slices.find(resources.device).hosts > 1:
            line += " --distributed"  # SkyPilot starts this on every host of the slice
    elif resources.nodes > 1:
        line += (
            f' --coordinator="$(head -n 1 <<< "$SKYPILOT_NODE_IPS"):{remote.PORT}"'
            ' --num_processes="$SKYPILOT_NUM_NODES" --process_id="$SKYPILOT_NODE_RANK"'
        )
    return f"{line}\n"


class _NoControllerError(ValueError):
    """SkyPilot keeps managed jobs on a machine of their own, which the first of them starts."""


def _sky() -> Any:
    try:
        import sky
        import sky.jobs
    except ImportError:
        raise ValueError(
            "--backend=skypilot needs SkyPilot's client: pip install 'agentrl[skypilot]'"
        ) from None
    return sky


def _answer(sky: Any, ask: Callable[[], Any]) -> Any:
    """What SkyPilot's server answers; its refusal as one line."""
    try:
        return ask()
    except (sky.exceptions.ClusterNotUpError, sky.exceptions.ClusterDoesNotExist) as error:
        raise _NoControllerError(f"SkyPilot has no jobs controller: {error}") from None
    except Exception as error:  # its exceptions have no class in common
        raise ValueError(f"SkyPilot: {' '.join(str(error).split())}") from error


def _known(sky: Any, launch: Launch) -> dict[str, tuple[str, State]]:
    """{job's name: (newest number, state)} of the launch's managed jobs."""
    names = {remote.object_name(launch, job): job.name for job in launch.jobs}
    try:
        records = _answer(sky, lambda: sky.get(sky.jobs.queue_v2(refresh=True)))[0]
    except _NoControllerError:  # before the first managed job
        return {}
    known = {}
    for record in sorted(records, key=lambda record: record.job_id):
        if record.job_name in names:
            status = record.status.value
            # All others are kinds of failure.
            state = _STATES.get(status, State.FAILED)
            known[names[record.job_name]] = (str(record.job_id), state)
    return known
