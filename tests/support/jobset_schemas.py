"""JobSets checked as the API server would: published schemas, no field that they do not have."""

import re

import kubeflow_trainer_api.models as models
import kubernetes_validate

_LABEL = r"[A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?"
_NEWEST = kubernetes_validate.latest_version()


def check(jobset):
    """ValueError, or a validation error of one of the schemas, if a cluster would refuse it."""
    # Fields of other names do not come back; values of other types are refused.
    back = models.JobsetV1alpha2JobSet.from_dict(jobset).to_dict()
    if back != jobset:
        raise ValueError(f"unknown fields: {differences(jobset, back)}")
    for replicated in jobset["spec"]["replicatedJobs"]:
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}}
        job |= replicated["template"]
        kubernetes_validate.validate(job, _NEWEST, strict=True)
        _check_names(jobset["metadata"]["name"], replicated)
        pod = replicated["template"]["spec"]["template"]["spec"]
        for key, value in (jobset["metadata"]["labels"] | pod.get("nodeSelector", {})).items():
            if not re.fullmatch(rf"([a-z0-9.-]+/)?{_LABEL}", key) or not re.fullmatch(
                _LABEL, value
            ):
                raise ValueError(f"label {key!r}: {value!r}")


def differences(given, back, path=""):
    """Paths at which two trees differ."""
    if isinstance(given, dict) and isinstance(back, dict):
        keys = [*given, *(key for key in back if key not in given)]
        pairs = [(key, given.get(key), back.get(key)) for key in keys]
    elif isinstance(given, list) and isinstance(back, list) and len(given) == len(back):
        pairs = [(i, *pair) for i, pair in enumerate(zip(given, back, strict=True))]
    else:
        return [] if given == back else [path]
    return [found for key, a, b in pairs for found in differences(a, b, f"{path}/{key}")]


def _check_names(name, replicated):
    # What JobSet's webhook checks: its service, its longest Job and its longest Pod are DNS labels.
    last = replicated["template"]["spec"]["completions"] - 1
    job = f"{name}-{replicated['name']}-{replicated['replicas'] - 1}"
    for label in (name, job, f"{job}-{last}-abcde"):
        if len(label) > 63 or not re.fullmatch(r"[a-z]([a-z0-9-]*[a-z0-9])?", label):
            raise ValueError(f"{label!r} is no DNS label")
