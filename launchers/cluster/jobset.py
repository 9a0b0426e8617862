"""Launches as JobSets of Kubernetes: plain objects, as they are printed and as they are submitted.

One JobSet for each job. JobSets can order the jobs within one of them (`dependsOn`), and a launch
could be one JobSet; but a JobSet restarts and fails as a whole, so one cell of a sweep that is
pre-empted would stop all others, and Kueue would reserve machines for all stages at once.

How a job ends decides what follows:

- exit code 0: done.
- exit codes 1, 2 and 3 (an exception, an error in the flags, a run that diverged): the job failed
  by itself. `podFailurePolicy` fails the Job, the rule of `failurePolicy` the JobSet. On several
  nodes a process whose partner is lost may raise, so 1 is not final there.
- anything else (saved after SIGTERM, killed, evicted, out of time): the JobSet begins again, at
  most `launch.retries` times, and the run resumes from its directory. A run that is told to stop
  exits with 75, because Kubernetes takes 0 for done even if it ended the pod itself.

After `hours` the Job is over (`activeDeadlineSeconds`): its pods get SIGTERM and
`GRACE_SECONDS` to save, and the JobSet begins again where it is. It does not go back to Kueue's
queue; a pre-emption by Kueue does, and does not count.
"""

from collections.abc import Iterator
from typing import Any

from agentrl.devices.targets import GPUS
from launchers.cluster import remote, slices
from launchers.cluster.launch import Job, Launch, Resources, Stage

API = {"group": "jobset.x-k8s.io", "version": "v1alpha2", "plural": "jobsets"}
LAUNCH_LABEL = "agentrl.launch"
JOB_ANNOTATION = "agentrl.job"
# A run saves after the program that is running, which may take minutes.
GRACE_SECONDS = 600
WEEK_SECONDS = 7 * 24 * 3600

# Labels of GKE's nodes, cloud.google.com/gke-accelerator. Elsewhere leave `device` out and give
# `constraint`, such as nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3.
_GPU_LABELS = {
    "a100": "nvidia-a100-80gb",
    "h100": "nvidia-h100-80gb",
    "h200": "nvidia-h200-141gb",
}
assert _GPU_LABELS.keys() == GPUS.keys()
_REPLICATED_JOB = "train"
# A process that is nobody's; groups of it may write to the volume.
_USER = 1000


def objects(launch: Launch) -> Iterator[tuple[Stage, Job, dict[str, Any]]]:
    """Every job of the launch with its JobSet."""
    for stage in launch.stages:
        for job in stage.jobs:
            yield stage, job, _jobset(launch, stage, job)


def _jobset(launch: Launch, stage: Stage, job: Job) -> dict[str, Any]:
    resources, name = stage.resources, remote.object_name(launch, job)
    labels = {"app.kubernetes.io/name": "agentrl", LAUNCH_LABEL: remote.launch_id(launch)}
    annotations = {JOB_ANNOTATION: job.name}
    if resources.qos and not resources.queue:
        raise ValueError(f"qos={resources.qos!r}: a WorkloadPriorityClass needs Kueue; give queue")
    if resources.queue:
        labels["kueue.x-k8s.io/queue-name"] = resources.queue
    if resources.qos:
        labels["kueue.x-k8s.io/priority-class"] = resources.qos
    if resources.is_tpu and slices.find(resources.device).hosts > 1:
        # The hosts of a slice are a node pool; without this, pods could be spread over two slices.
        annotations["alpha.jobset.sigs.k8s.io/exclusive-topology"] = "cloud.google.com/gke-nodepool"
    metadata = {"name": name, "labels": labels, "annotations": annotations}
    if resources.account:
        metadata["namespace"] = resources.account
    spec = {
        # Kueue lets it go.
        **({"suspend": True} if resources.queue else {}),
        "network": {"enableDNSHostnames": True},
        "failurePolicy": {
            "maxRestarts": launch.retries,
            "rules": [
                {
                    "name": "failedByItself",
                    "action": "FailJobSet",
                    "onJobFailureReasons": ["PodFailurePolicy"],
                }
            ],
        },
        "ttlSecondsAfterFinished": WEEK_SECONDS,
        "replicatedJobs": [
            {
                "name": _REPLICATED_JOB,
                "replicas": 1,
                "template": {"spec": _job(name, job, resources)},
            }
        ],
    }
    version = f"{API['group']}/{API['version']}"
    return {"apiVersion": version, "kind": "JobSet", "metadata": metadata, "spec": spec}


def _job(name: str, job: Job, resources: Resources) -> dict[str, Any]:
    nodes = slices.find(resources.device).hosts if resources.is_tpu else resources.nodes
    by_itself = [1, 2, 3] if nodes == 1 else [2, 3]
    return {
        "completionMode": "Indexed",
        "completions": nodes,
        "parallelism": nodes,
        "backoffLimit": 0,
        "activeDeadlineSeconds": max(1, round(3600 * resources.hours)),
        "podFailurePolicy": {
            "rules": [
                # What a pod answers to an eviction is no failure of its own. Count is more than
                # backoffLimit allows: the Job fails, and the JobSet begins again.
                {
                    "action": "Count",
                    "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
                },
                {
                    "action": "FailJob",
                    "onExitCodes": {
                        "containerName": _REPLICATED_JOB,
                        "operator": "In",
                        "values": by_itself,
                    },
                },
            ]
        },
        "template": {"spec": _pod(name, job, resources, nodes)},
    }


def _pod(name: str, job: Job, resources: Resources, nodes: int) -> dict[str, Any]:
    claim, path = remote.volume(resources)
    mounts = [{"name": "runs", "mountPath": str(path)}]
    volumes: list[dict[str, Any]] = [
        {"name": "runs", "persistentVolumeClaim": {"claimName": claim}}
    ]
    if resources.devices > 1:  # NCCL needs more than the 64 MiB that containers have
        mounts.append({"name": "shm", "mountPath": "/dev/shm"})
        volumes.append({"name": "shm", "emptyDir": {"medium": "Memory"}})
    pod: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": _security(resources),
        "containers": [_container(name, job, resources, nodes, mounts)],
        "volumes": volumes,
    }
    if selector := _selector(resources):
        pod["nodeSelector"] = selector
    if device := _device(resources):
        tolerated = {"key": device[0], "operator": "Exists", "effect": "NoSchedule"}
        pod["tolerations"] = [tolerated]
    return pod


def _security(resources: Resources) -> dict[str, Any]:
    security: dict[str, Any] = {
        "seccompProfile": {"type": "RuntimeDefault"},
        "fsGroup": _USER,
        "fsGroupChangePolicy": "OnRootMismatch",
    }
    # The device files of TPUs are root's. Root of such a pod has no capabilities.
    if not resources.is_tpu:
        security |= {"runAsNonRoot": True, "runAsUser": _USER, "runAsGroup": _USER}
    return security


def _container(
    name: str, job: Job, resources: Resources, nodes: int, mounts: list[dict[str, Any]]
) -> dict[str, Any]:
    if not resources.image:
        raise ValueError(
            "image is missing: expected a container image with agentrl and its configs"
        )
    # $(NAME) in a flag would be replaced by Kubernetes.
    line = [word.replace("$(", "$$(") for word in remote.command("python", job, resources)]
    environment = {"HOME": "/tmp", **resources.environment}
    if nodes > 1 and resources.is_tpu:
        # GKE tells each process its place in the slice.
        line.append("--distributed")
    elif nodes > 1:
        # --distributed would ask Kubernetes, which takes rights that a pod does not need.
        first = f"{name}-{_REPLICATED_JOB}-0-0.{name}:{remote.PORT}"
        line += [f"--coordinator={first}", f"--num_processes={nodes}"]
        line.append("--process_id=$(JOB_COMPLETION_INDEX)")
        # Otherwise jax looks for them, and so for the token of Kubernetes, although told the rest.
        local = ",".join(str(number) for number in range(max(1, resources.devices)))
        environment.setdefault("JAX_LOCAL_DEVICE_IDS", local)
    return {
        "name": _REPLICATED_JOB,
        "image": resources.image,
        # No shell: the run itself is process 1, and gets SIGTERM.
        "command": line[:3],
        "args": line[3:],
        "env": [{"name": key, "value": value} for key, value in environment.items()],
        "resources": _amounts(resources),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": mounts,
    }


def _device(resources: Resources) -> tuple[str, int] | None:
    if resources.is_tpu:
        return "google.com/tpu", slices.find(resources.device).chips
    return ("nvidia.com/gpu", resources.devices) if resources.devices else None


def _amounts(resources: Resources) -> dict[str, Any]:
    requests: dict[str, Any] = {"cpu": str(resources.cpus)}
    limits: dict[str, Any] = {}
    if resources.memory_gib is not None:
        # A limit of CPUs would only slow down compilation; memory without one can end a node.
        limits["memory"] = requests["memory"] = f"{round(1024 * resources.memory_gib)}Mi"
    if device := _device(resources):
        requests[device[0]] = limits[device[0]] = str(device[1])
    return {"requests": requests, **({"limits": limits} if limits else {})}


def _selector(resources: Resources) -> dict[str, str]:
    selector = {}
    if resources.is_tpu:
        found = slices.find(resources.device)
        selector["cloud.google.com/gke-tpu-accelerator"] = found.label
        selector["cloud.google.com/gke-tpu-topology"] = found.topology
    elif resources.device in _GPU_LABELS:
        selector["cloud.google.com/gke-accelerator"] = _GPU_LABELS[resources.device]
    elif resources.device:
        raise ValueError(
            f"device={resources.device!r}: expected one of {', '.join(_GPU_LABELS)}, or a slice of "
            "TPUs; for another kind leave device out and give its nodes' label, "
            "constraint=key=value"
        )
    for word in filter(None, (resources.constraint or "").split(",")):
        key, equals, value = word.partition("=")
        if not equals or not key or not value:
            raise ValueError(
                f"constraint={resources.constraint!r}: expected labels of nodes, key=value,..."
            )
        selector[key] = value
    return selector
