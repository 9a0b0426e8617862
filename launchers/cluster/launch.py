"""What is launched: jobs, what each of them is given, and which wait for which."""

import dataclasses
import pathlib
import re
from collections.abc import Mapping

from agentrl.devices.targets import GPUS, TPUS

# Names become names of jobs, of directories and, with other signs replaced, of Kubernetes' objects.
_NAME = re.compile(r"[A-Za-z0-9][\w.,=()+@-]*")


@dataclasses.dataclass(frozen=True)
class Resources:
    """What one job is given.

    nodes: machines; more than one are joined by `launchers.train --distributed`.
    devices: accelerators of each node; 0 is the CPU.
    device: their kind: a GPU ("h100"), or a slice of TPUs ("v5e:2x4"), which says by itself how
      many nodes and devices it has. "" leaves the choice of a GPU to the cluster.
    cpus, memory_gib: of each node; None leaves the memory to the cluster.
    hours: after them the job is told to save and is queued again.
    queue: Slurm's partition, the LocalQueue of Kueue, or SkyPilot's infra ("gcp/us-east5").
    account: Slurm's, or the namespace of Kubernetes.
    qos: Slurm's, Kueue's WorkloadPriorityClass, or "spot" for SkyPilot's pre-emptible machines.
    constraint: Slurm's, or labels of Kubernetes' nodes, "key=value,key=value".
    image: of the container, for Kubernetes and SkyPilot.
    volume: "NAME:/PATH", where containers have the run directories: a PersistentVolumeClaim of
      Kubernetes, a volume of SkyPilot, or a bucket ("gs://bucket:/runs"). A relative directory of a
      run is below /PATH.
    environment: variables of the job's processes.
    """

    nodes: int = 1
    devices: int = 0
    device: str = ""
    cpus: int = 2
    memory_gib: float | None = None
    hours: float = 4.0
    queue: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    image: str | None = None
    volume: str | None = None
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        for name, least in (("nodes", 1), ("devices", 0), ("cpus", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}={getattr(self, name)}: expected at least {least}")
        if not 0 < self.hours < 24 * 365:
            raise ValueError(f"hours={self.hours}: expected a number above 0 and below a year")
        if self.memory_gib is not None and not self.memory_gib > 0:
            raise ValueError(f"memory_gib={self.memory_gib}: expected a number above 0, or none")
        kind, _, topology = self.device.partition(":")
        if kind in TPUS and not re.fullmatch(r"\d+(x\d+){1,2}", topology):
            raise ValueError(f"device={self.device!r}: expected a slice, such as {kind}:2x4")
        if kind in TPUS and (self.nodes, self.devices) != (1, 0):
            raise ValueError(
                f"device={self.device!r} with nodes={self.nodes} and devices={self.devices}: a "
                "slice of TPUs says by itself how many it has; leave both out"
            )
        if kind in GPUS and (topology or not self.devices):
            raise ValueError(
                f"device={self.device!r} with devices={self.devices}: expected one of "
                f"{', '.join(GPUS)} and how many of them each node has, devices=8"
            )
        if self.volume is not None and not re.fullmatch(r".+:/[^:]*[^:/]", self.volume):
            raise ValueError(f"volume={self.volume!r}: expected NAME:/PATH, such as runs:/mnt/runs")
        for name in self.environment:
            if not re.fullmatch(r"[A-Za-z_]\w*", name):
                raise ValueError(f"environment {name!r}: expected the name of a variable")

    @property
    def is_tpu(self) -> bool:
        """Whether a job runs on a slice of TPUs."""
        return self.device.partition(":")[0] in TPUS


@dataclasses.dataclass(frozen=True)
class Job:
    """One run of `launchers.train`: a cell of a sweep with one choice of seeds.

    name: unique in the launch; also names its log.
    arguments: flags of `launchers.train`, without --workdir and --distributed.
    workdir: directory of the run.
    runs: the update at which each of its runs ends, by their directories below `workdir`:
      {"": 200}, or {name: updates} of a config of stages. `check.checked` fills it in.
    """

    name: str
    arguments: tuple[str, ...]
    workdir: pathlib.Path
    runs: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        if not _NAME.fullmatch(self.name):
            raise ValueError(
                f"job {self.name!r}: expected a name of letters, digits and .,=()+@_- that begins "
                "with a letter or digit"
            )


@dataclasses.dataclass(frozen=True)
class Stage:
    """Jobs that do not wait for each other and are given the same.

    after: names of stages all of whose jobs have to end well before these begin.
    """

    name: str
    jobs: tuple[Job, ...]
    resources: Resources = Resources()
    after: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Launch:
    """Stages of jobs.

    workdir: directory of the launch: logs, the scheduler's numbers of jobs, tables.
    stages: each after those that it waits for.
    at_once: jobs that run at the same time; 0 leaves it to the cluster.
    retries: how often a job begins again after it was pre-empted, ran into its time limit, or its
      machine failed. A job that fails by itself is not repeated.
    """

    name: str
    workdir: pathlib.Path
    stages: tuple[Stage, ...]
    at_once: int = 0
    retries: int = 10

    def __post_init__(self):
        if self.at_once < 0 or self.retries < 0:
            raise ValueError(
                f"at_once={self.at_once}, retries={self.retries}: expected 0 or more of both"
            )
        seen: set[str] = set()
        for stage in self.stages:
            missing = [name for name in stage.after if name not in seen]
            if missing or stage.name in seen:
                raise ValueError(
                    f"stage {stage.name!r} after {', '.join(stage.after) or 'none'}: expected a "
                    f"name of its own, and to come after the stages that it waits for"
                )
            seen.add(stage.name)
        names = [job.name for job in self.jobs]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"{twice[0]!r} names two jobs")

    @property
    def jobs(self) -> tuple[Job, ...]:
        """The jobs of all stages."""
        return tuple(job for stage in self.stages for job in stage.jobs)
