"""Kubernetes: one JobSet for each job, submitted with the client of Kubernetes.

The cluster needs JobSet's controller, and Kueue if `queue` is given. `jobset` has the objects.
The client takes the current context of $KUBECONFIG, or the service account of its own pod.
"""

import pathlib
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from launchers.cluster import jobset, remote
from launchers.cluster.backend import State
from launchers.cluster.launch import Job, Launch, Stage

LOG_LINES = 1000
_ANSWER_SECONDS = 60.0
# Pods that were deleted have this long to save.
_DELETION_SECONDS = jobset.GRACE_SECONDS + 60.0
_DELETION_POLL_SECONDS = 2.0
_OWN_NAMESPACE = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class _Cluster(NamedTuple):
    jobsets: Any
    core: Any
    namespace: str


def plan(launch: Launch) -> str:
    """The JobSets as YAML documents."""
    return remote.dump(launch, jobset.objects(launch))


def submit(launch: Launch, names: Sequence[str]) -> dict[str, str]:
    """Creates the JobSets of these jobs; {job's name: JobSet's name}.

    A JobSet that runs is left alone, one that has ended is replaced. With stages that wait, or
    `at_once`, it returns when the last is submitted.
    """
    made = {job.name: body for _, job, body in jobset.objects(launch)}
    cluster = _connect()

    def create(stage: Stage, job: Job) -> str:
        return _create(cluster, made[job.name])

    return remote.submit_in_turn(launch, names, create, lambda: _states(cluster, launch))


def states(launch: Launch, numbers: Mapping[str, str]) -> dict[str, State]:
    """{job's name: state}."""
    known = _states(_connect(), launch)
    return {name: known.get(name, State.UNKNOWN) for name in numbers}


def cancel(launch: Launch, numbers: Mapping[str, str]) -> None:
    """Deletes the JobSets. Their pods save first, and their logs are gone afterwards."""
    cluster = _connect()
    for stage in launch.stages:
        for job in stage.jobs:
            if job.name in numbers:
                _delete(cluster, _namespace(cluster, stage), numbers[job.name])


def logs(launch: Launch, job: Job) -> str:
    """The newest lines of the job's first process."""
    cluster = _connect()
    stage = next(stage for stage in launch.stages if job in stage.jobs)
    namespace = _namespace(cluster, stage)
    name = remote.object_name(launch, job)
    selector = f"jobset.sigs.k8s.io/jobset-name={name},batch.kubernetes.io/job-completion-index=0"
    pods = _call(cluster.core.list_namespaced_pod, namespace, label_selector=selector).items
    if not pods:
        return ""
    newest = max(pods, key=lambda pod: pod.metadata.creation_timestamp).metadata.name
    try:
        return _call(cluster.core.read_namespaced_pod_log, newest, namespace, tail_lines=LOG_LINES)
    except _RefusedError as error:
        if error.status in (400, 404):  # its container has not begun, or the pod is gone
            return ""
        raise


class _RefusedError(ValueError):
    """What the API server answered, in one line."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


def _connect() -> _Cluster:
    try:
        import kubernetes
    except ImportError:
        raise ValueError(
            "--backend=kubernetes needs Kubernetes' client: pip install 'agentrl[kubernetes]'"
        ) from None
    settings = kubernetes.client.Configuration()
    try:
        kubernetes.config.load_config(client_configuration=settings)
    except (kubernetes.config.ConfigException, OSError) as error:
        raise ValueError(
            f"no cluster: {error}; expected a kubeconfig with a current context ($KUBECONFIG)"
        ) from None
    try:
        namespace = kubernetes.config.list_kube_config_contexts()[1]["context"]["namespace"]
    except (kubernetes.config.ConfigException, KeyError):
        own = _OWN_NAMESPACE
        namespace = own.read_text().strip() if own.exists() else "default"
    client = kubernetes.client.ApiClient(settings)
    return _Cluster(
        kubernetes.client.CustomObjectsApi(client), kubernetes.client.CoreV1Api(client), namespace
    )


def _call(function: Any, *arguments: Any, **options: Any) -> Any:
    """Calls the API server; its refusal as one line."""
    import kubernetes
    import urllib3

    try:
        return function(*arguments, **options, _request_timeout=_ANSWER_SECONDS)
    except kubernetes.client.ApiException as error:
        said = " ".join(str(error.body or error.reason).split())
        advice = ""
        if error.status == 404 and "page not found" in said:
            advice = "; the cluster needs JobSet's controller (jobset.sigs.k8s.io)"
        raise _RefusedError(error.status, f"Kubernetes: {error.status} {said}{advice}") from None
    except urllib3.exceptions.HTTPError as error:
        raise ValueError(f"Kubernetes does not answer: {error}") from None


def _namespace(cluster: _Cluster, stage: Stage) -> str:
    return stage.resources.account or cluster.namespace


def _create(cluster: _Cluster, body: dict[str, Any]) -> str:
    name = body["metadata"]["name"]
    namespace = body["metadata"].get("namespace", cluster.namespace)
    place = {**jobset.API, "namespace": namespace}
    end = time.monotonic() + _DELETION_SECONDS
    while True:
        try:
            _call(cluster.jobsets.create_namespaced_custom_object, **place, body=body)
            return name
        except _RefusedError as error:
            if error.status != 409:
                raise
        try:
            there = _call(cluster.jobsets.get_namespaced_custom_object, **place, name=name)
        except _RefusedError as error:
            if error.status == 404:
                continue
            raise
        # One that was cancelled is there until its pods have saved.
        if "deletionTimestamp" not in there["metadata"]:
            if _state(there) in (State.WAITING, State.RUNNING):
                return name
            _delete(cluster, namespace, name)
        if time.monotonic() > end:
            raise ValueError(f"JobSet {name} is being deleted and does not go; try again later")
        time.sleep(_DELETION_POLL_SECONDS)


def _delete(cluster: _Cluster, namespace: str, name: str) -> None:
    try:
        _call(
            cluster.jobsets.delete_namespaced_custom_object,
            **jobset.API,
            namespace=namespace,
            name=name,
            # Its name is free when its pods have ended: never two on one run directory.
            propagation_policy="Foreground",
        )
    except _RefusedError as error:
        if error.status != 404:
            raise


def _states(cluster: _Cluster, launch: Launch) -> dict[str, State]:
    names = {remote.object_name(launch, job): job.name for job in launch.jobs}
    known = {}
    for namespace in sorted({_namespace(cluster, stage) for stage in launch.stages}):
        listed = _call(
            cluster.jobsets.list_namespaced_custom_object,
            **jobset.API,
            namespace=namespace,
            label_selector=f"{jobset.LAUNCH_LABEL}={remote.launch_id(launch)}",
        )
        for item in listed["items"]:
            if item["metadata"]["name"] in names:
                known[names[item["metadata"]["name"]]] = _state(item)
    return known


def _state(item: Mapping[str, Any]) -> State:
    """The state of a JobSet, by its conditions and the pods that are ready."""
    status = item.get("status", {})
    true = {x["type"] for x in status.get("conditions", ()) if x["status"] == "True"}
    if "Failed" in true:
        return State.FAILED
    if "Completed" in true:
        return State.DONE
    if "deletionTimestamp" in item["metadata"]:
        return State.UNKNOWN
    ready = any(x.get("ready", 0) for x in status.get("replicatedJobsStatus", ()))
    return State.RUNNING if ready and "Suspended" not in true else State.WAITING
