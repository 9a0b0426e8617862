import copy
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

import jobset_schemas
import launches
import pytest
import yaml

import configs
from agentrl.run import checkpoint
from launchers.cluster import jobset, kubernetes

CONFIG = pathlib.Path(configs.__file__).parent / "start/frozen_lake.py"
EIGHT = {"devices": 8, "device": "h100", "cpus": 32, "memory_gib": 256}
KINDS = {
    "cpu": {},
    "gpus of one node": EIGHT,
    "gpus of three nodes": {**EIGHT, "nodes": 3},
    "a slice of one host": {"device": "v5e:2x4"},
    "a slice of four hosts": {"device": "v5e:4x4"},
    "a cuboid": {"device": "v5p:4x4x8"},
    "with a queue": {"queue": "research", "qos": "high", "account": "team"},
    "by label": {"devices": 4, "constraint": "nvidia.com/gpu.product=NVIDIA-L4,zone=a"},
    "variables": {"environment": {"XLA_FLAGS": "--xla_a=true"}, "memory_gib": 1.5},
}


def body(**given):
    [(_, _, found)] = jobset.objects(launches.one(**given))
    return found


def job_of(found):
    return found["spec"]["replicatedJobs"][0]["template"]["spec"]


def pod_of(found):
    return job_of(found)["template"]["spec"]


def container_of(found):
    [container] = pod_of(found)["containers"]
    return container


@pytest.mark.parametrize("given", KINDS.values(), ids=KINDS)
def test_the_published_schemas_accept_every_field(given):
    jobset_schemas.check(body(**given))


@pytest.mark.parametrize(
    "path",
    ["spec", "spec/failurePolicy", "spec/failurePolicy/rules/0", "spec/replicatedJobs/0"]
    + [f"spec/replicatedJobs/0/template/spec{rest}" for rest in ("", "/template/spec")],
)
def test_the_schemas_refuse_a_field_that_nothing_has(path):
    found = copy.deepcopy(body())
    place = found
    for key in path.split("/"):
        place = place[int(key) if key.isdigit() else key]
    place["backofLimit"] = 0
    with pytest.raises(Exception, match=r"backofLimit|Additional properties"):
        jobset_schemas.check(found)


def test_the_plan_is_what_is_submitted_document_by_document():
    launch = launches.two_stages(at_once=2)
    text = kubernetes.plan(launch)
    bodies = [found for _, _, found in jobset.objects(launch)]
    assert list(yaml.safe_load_all(text)) == bodies and len(bodies) == 3
    assert text.count("# submitted when all jobs of first have ended well") == 1
    assert text.count("# submitted when fewer than 2 jobs of this launch run or wait") == 3


@pytest.mark.parametrize(
    ("given", "pods", "amount", "selector"),
    [
        (EIGHT, 1, {"nvidia.com/gpu": "8"}, {"gke-accelerator": "nvidia-h100-80gb"}),
        (
            {**EIGHT, "nodes": 3},
            3,
            {"nvidia.com/gpu": "8"},
            {"gke-accelerator": "nvidia-h100-80gb"},
        ),
        (
            {"device": "v5e:2x4"},
            1,
            {"google.com/tpu": "8"},
            {"gke-tpu-accelerator": "tpu-v5-lite-podslice", "gke-tpu-topology": "2x4"},
        ),
        (
            {"device": "v5e:4x4"},
            4,
            {"google.com/tpu": "4"},
            {"gke-tpu-accelerator": "tpu-v5-lite-podslice", "gke-tpu-topology": "4x4"},
        ),
        ({}, 1, {}, {}),
    ],
)
def test_what_a_job_is_given(given, pods, amount, selector):
    found = body(**given)
    job, asked = job_of(found), container_of(found)["resources"]
    assert job["completions"] == job["parallelism"] == pods
    assert {k: v for k, v in asked["requests"].items() if "/" in k} == amount
    assert {k: v for k, v in asked.get("limits", {}).items() if "/" in k} == amount
    expected = {f"cloud.google.com/{key}": value for key, value in selector.items()}
    assert pod_of(found).get("nodeSelector", {}) == expected
    assert [x["key"] for x in pod_of(found).get("tolerations", ())] == list(amount)


def test_gpus_of_other_clusters_are_found_by_their_label():
    found = body(devices=4, constraint="nvidia.com/gpu.product=NVIDIA-L4")
    assert pod_of(found)["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-L4"}


def test_kueue_lets_a_job_go_and_nothing_else_holds_one():
    found = body(queue="research", qos="high", account="team")
    labels = found["metadata"]["labels"]
    assert found["spec"]["suspend"] and found["metadata"]["namespace"] == "team"
    assert labels["kueue.x-k8s.io/queue-name"] == "research"
    assert labels["kueue.x-k8s.io/priority-class"] == "high"
    assert "suspend" not in body()["spec"] and "namespace" not in body()["metadata"]


@pytest.mark.parametrize("given", KINDS.values(), ids=KINDS)
def test_pods_have_no_rights(given):
    pod, container = pod_of(body(**given)), container_of(body(**given))
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    assert not any("hostPath" in volume for volume in pod["volumes"])
    # All but those with TPUs are "restricted" by the Pod Security Standards.
    is_tpu = ":" in given.get("device", "")
    assert pod["securityContext"].get("runAsNonRoot", False) is not is_tpu


@pytest.mark.parametrize(
    ("code", "evicted", "nodes", "then"),
    [
        (2, False, 1, "fails"),
        (3, False, 4, "fails"),
        (1, False, 1, "fails"),
        # A partner that is lost may be an exception here.
        (1, False, 4, "begins again"),
        (75, False, 1, "begins again"),
        (137, False, 1, "begins again"),
        (134, False, 4, "begins again"),
        (2, True, 1, "begins again"),
    ],
)
def test_a_job_that_fails_by_itself_is_not_repeated(code, evicted, nodes, then):
    found = body(nodes=nodes)
    job, policy = job_of(found), found["spec"]["failurePolicy"]
    # As Kubernetes decides: the first rule that holds; Count is one more than backoffLimit.
    action = "Count"
    for rule in job["podFailurePolicy"]["rules"]:
        holds = evicted if "onPodConditions" in rule else code in rule["onExitCodes"]["values"]
        if holds:
            action = rule["action"]
            break
    assert job["backoffLimit"] == 0
    reason = {"FailJob": "PodFailurePolicy", "Count": "BackoffLimitExceeded"}[action]
    # As JobSet decides: the first rule that holds, else it begins again and counts.
    ends = [x["action"] for x in policy["rules"] if reason in x["onJobFailureReasons"]]
    assert ends == (["FailJobSet"] if then == "fails" else [])


def test_a_job_begins_again_as_often_as_the_launch_says():
    assert body(retries=3)["spec"]["failurePolicy"]["maxRestarts"] == 3
    assert job_of(body(hours=0.5))["activeDeadlineSeconds"] == 1800
    assert pod_of(body())["terminationGracePeriodSeconds"] >= 300


def expanded(found, index):
    """The command of a pod and its variables, as Kubernetes makes them."""
    container = container_of(found)
    variables = {x["name"]: x["value"] for x in container["env"]}
    variables["JOB_COMPLETION_INDEX"] = str(index)

    def replace(match):
        whole, name = match.group(0), match.group(1)
        return whole[1:] if whole.startswith("$$") else variables.get(name, whole)

    line = container["command"] + container["args"]
    return [re.sub(r"\$?\$\((\w+)\)", replace, word) for word in line], variables


def test_flags_reach_the_run_as_they_were_given():
    flags = ("--config=a.py", "--config.note=$(HOME) $$(X) it's; rm -rf $HOME")
    line, _ = expanded(body(a_job=launches.job(arguments=flags)), 0)
    assert line[:3] == ["python", "-m", "launchers.train"]
    assert tuple(line[3:5]) == flags and "--distributed" not in line


def test_processes_are_joined_where_there_are_several():
    several = body(nodes=3)
    name = several["metadata"]["name"]
    for index in range(3):
        line, _ = expanded(several, index)
        assert line[-3:] == [
            # The name that JobSet gives the first pod in the network that it makes.
            f"--coordinator={name}-train-0-0.{name}:8476",
            "--num_processes=3",
            f"--process_id={index}",
        ]
    assert several["spec"]["network"] == {"enableDNSHostnames": True}
    assert expanded(body(device="v5e:4x4"), 1)[0][-1] == "--distributed"
    for single in (EIGHT, {"device": "v5e:2x4"}):
        line = " ".join(expanded(body(**single), 0)[0])
        assert "--distributed" not in line and "--coordinator" not in line


def start(found, index, port):
    """A pod as a process: a shell of Kubernetes around it, without its token."""
    line, variables = expanded(found, index)
    address = re.compile(r"--coordinator=[\w.-]+:\d+")
    line = [address.sub(f"--coordinator=localhost:{port}", word) for word in line]
    inherited = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    return subprocess.Popen(
        [sys.executable, *line[1:], "--dry_run"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=inherited | variables | {"KUBERNETES_SERVICE_HOST": "10.0.0.1"},
    )


@pytest.mark.long
def test_pods_join_without_asking_kubernetes():
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    found = body(nodes=2, a_job=launches.job(arguments=(f"--config={CONFIG}",)))
    both = [start(found, index, port) for index in range(2)]
    said = [process.communicate(timeout=240)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    # Without the numbers of its devices jax looks for the token, which these pods do not have.
    environment = container_of(found)["env"]
    container_of(found)["env"] = [x for x in environment if x["name"] != "JAX_LOCAL_DEVICE_IDS"]
    alone = start(found, 1, port)
    assert "Service host/port is not set" in alone.communicate(timeout=240)[0]


@pytest.mark.long
def test_a_run_that_is_told_to_stop_asks_to_begin_again_and_then_ends(tmp_path):
    flags = [f"--config={CONFIG}", "--config.updates=100000", "--config.log_every=1"]
    flags += ["--config.num_seeds=1", "--config.evaluation.every=0", "--config.policy.hidden=(8,)"]
    job = launches.job(arguments=tuple(flags), workdir="run")
    line, variables = expanded(body(a_job=job, volume=f"runs:{tmp_path}"), 0)
    environment = os.environ | variables | {"JAX_DISABLE_MOST_OPTIMIZATIONS": "true"}
    process = subprocess.Popen([sys.executable, *line[1:]], env=environment)
    log = tmp_path / "run" / "metrics.jsonl"
    while process.poll() is None and not (log.exists() and log.read_text()):
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 75
    saved = checkpoint.steps(tmp_path / "run" / "checkpoints")[-1]
    again = [word.replace("updates=100000", f"updates={saved + 1}") for word in line[1:]]
    assert subprocess.run([sys.executable, *again], env=environment, timeout=120).returncode == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"image": None}, "image is missing"),
        ({"volume": None}, "volume is missing"),
        ({"qos": "high"}, "qos='high': a WorkloadPriorityClass needs Kueue; give queue"),
        ({"constraint": "gpu"}, "constraint='gpu': expected labels of nodes, key=value"),
        ({"device": "l4", "devices": 1}, "device='l4': expected one of a100, h100, h200"),
        ({"device": "v5e:3x3"}, "device='v5e:3x3': expected one of 1x1"),
    ],
)
def test_what_cannot_be_carried_out_is_one_line(given, message):
    with pytest.raises(ValueError, match=message) as error:
        kubernetes.plan(launches.one(**given))
    assert "\n" not in str(error.value)
