import importlib.util
import json
import os
import pathlib
import shlex
import subprocess
import sys
import types

import launches
import pytest
import yaml

from launchers.cluster import remote, skypilot
from launchers.cluster.backend import State

needs_sky = pytest.mark.skipif(
    importlib.util.find_spec("sky") is None, reason="needs SkyPilot: pip install .[skypilot]"
)
EIGHT = {"devices": 8, "device": "h100", "cpus": 32, "memory_gib": 256}
KINDS = {
    "cpu": {},
    "gpus": EIGHT,
    "nodes": {**EIGHT, "nodes": 3},
    "slice": {"device": "v5e:2x4"},
    "slice of hosts": {"device": "v5e:4x4"},
    "cuboid": {"device": "v5p:2x2x2"},
    "no image": {**EIGHT, "image": None},
    "spot": {**EIGHT, "qos": "spot", "queue": "gcp/us-east5"},
    "bucket": {"volume": "gs://bucket:/mnt/runs"},
    "variables": {"environment": {"XLA_FLAGS": "--xla_a=true"}},
}


def task_of(**given):
    [(_, _, task)] = skypilot.objects(launches.one(**given))
    return task


def run(task, variables, folder):
    """What a node's shell gives to the run: its words."""
    python = folder / "python"
    python.write_text('#!/bin/sh\nfor word in "$@"; do printf "%s\\0" "$word"; done\n')
    python.chmod(0o755)
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", **variables}
    done = subprocess.run(
        ["bash", "-c", task["run"]], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.split("\0")[:-1]


def test_flags_reach_the_run_as_they_were_given(tmp_path):
    flags = ("--config=a.py", '--config.note=it\'s $HOME `id`; "x"\n#')
    words = run(task_of(a_job=launches.job(arguments=flags)), {}, tmp_path)
    assert words[:2] == ["-m", "launchers.train"] and tuple(words[2:4]) == flags
    assert words[4:] == ["--workdir=/mnt/runs/runs/coin/a", "--stopped_code=75"]


def test_processes_are_joined_where_there_are_several(tmp_path):
    variables = {"SKYPILOT_NODE_IPS": "10.0.0.5\n10.0.0.6\n10.0.0.7\n", "SKYPILOT_NUM_NODES": "3"}
    for rank in range(3):
        given = {**variables, "SKYPILOT_NODE_RANK": str(rank)}
        assert run(task_of(nodes=3), given, tmp_path)[-3:] == [
            "--coordinator=10.0.0.5:8476",
            "--num_processes=3",
            f"--process_id={rank}",
        ]
    assert run(task_of(device="v5e:4x4"), {}, tmp_path)[-1] == "--distributed"
    for single in ({}, EIGHT, {"device": "v5e:2x4"}):
        assert run(task_of(**single), {}, tmp_path)[-1] == "--stopped_code=75"


@pytest.mark.parametrize(
    ("given", "accelerators"),
    [
        ({}, None),
        (EIGHT, {"H100": 8}),
        ({"devices": 2, "device": "a100"}, {"A100-80GB": 2}),
        ({"device": "v5e:2x4"}, {"tpu-v5litepod-8": 1}),
        ({"device": "v5e:4x4"}, {"tpu-v5litepod-16": 1}),
        ({"device": "v6e:4x4"}, {"tpu-v6e-16": 1}),
        # Of these, Google counts cores.
        ({"device": "v5p:2x2x1"}, {"tpu-v5p-8": 1}),
        ({"device": "v4:4x4x4"}, {"tpu-v4-128": 1}),
    ],
)
def test_accelerators_by_skypilots_names(given, accelerators):
    assert task_of(**given)["resources"].get("accelerators") == accelerators


def test_the_plan_is_what_is_submitted_document_by_document():
    launch = launches.two_stages(at_once=2)
    text = skypilot.plan(launch)
    assert list(yaml.safe_load_all(text)) == [task for _, _, task in skypilot.objects(launch)]
    assert text.count("# submitted when all jobs of first have ended well") == 1


def test_run_directories_are_on_a_volume_or_in_a_bucket():
    assert task_of()["volumes"] == {"/mnt/runs": "runs"}
    bucket = task_of(volume="gs://bucket/sub:/mnt/runs")
    assert bucket["file_mounts"]["/mnt/runs"] == {
        "source": "gs://bucket/sub",
        "mode": "MOUNT_CACHED",
    }
    assert "volumes" not in bucket


def test_packages_are_in_the_image_or_installed():
    assert "setup" not in task_of()
    for given, package in (
        (EIGHT, "jax[cuda12]"),
        ({"device": "v5e:2x2"}, "jax[tpu]"),
        ({}, "jax"),
    ):
        setup = task_of(**given, image=None)["setup"]
        words = [shlex.split(line) for line in setup.splitlines()]
        assert words[0] == ["set", "-e"] and words[-1][-2:] == [".", package]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"volume": None}, "volume is missing"),
        ({"qos": "high"}, "qos='high': expected spot, or none, for SkyPilot"),
        ({"account": "team"}, "account='team': SkyPilot has no such thing"),
        ({"constraint": "a=b"}, "constraint='a=b': SkyPilot has no such thing"),
        ({"devices": 8}, "device='': expected one of a100, h100, h200"),
    ],
)
def test_what_cannot_be_carried_out_is_one_line(given, message):
    with pytest.raises(ValueError, match=message) as error:
        skypilot.plan(launches.one(**given))
    assert "\n" not in str(error.value)


LOAD = """
import json, sys, yaml
import sky

for task in yaml.safe_load_all(sys.stdin):
    loaded = sky.Task.from_yaml_config(task)
    [resources] = loaded.resources
    print(json.dumps({
        "name": loaded.name, "num_nodes": loaded.num_nodes, "envs": loaded.envs,
        "run": loaded.run, "accelerators": resources.accelerators, "cpus": resources.cpus,
        "use_spot": resources.use_spot, "job_recovery": resources.job_recovery,
        "infra": resources.infra.to_str(), "api": loaded.api_server_access,
    }))
"""


def load(text, home):
    return subprocess.run(
        [sys.executable, "-c", LOAD],
        input=text,
        env={**os.environ, "HOME": str(home), "SKYPILOT_DISABLE_USAGE_COLLECTION": "1"},
        capture_output=True,
        text=True,
        cwd=pathlib.Path(__file__).parents[3],
    )


@needs_sky
def test_skypilot_reads_every_task(tmp_path):
    plans = [skypilot.plan(launches.one(**given)) for given in KINDS.values()]
    done = load("---\n".join(plans), tmp_path)
    assert done.returncode == 0, done.stderr
    loaded = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    for given, found in zip(KINDS.values(), loaded, strict=True):
        task = task_of(**given)
        assert {key: found[key] for key in ("name", "num_nodes", "run")} == {
            key: task[key] for key in ("name", "num_nodes", "run")
        }
        assert task["envs"].items() <= found["envs"].items()
        assert found["accelerators"] == task["resources"].get("accelerators")
        assert found["use_spot"] == (given.get("qos") == "spot") and found["api"] is False
        assert found["job_recovery"]["recover_on_exit_codes"] == [75]
        assert found["job_recovery"]["max_restarts_on_errors"] == 0
        if "queue" in given:
            assert found["infra"] == given["queue"]


@needs_sky
def test_skypilot_refuses_a_field_that_nothing_has(tmp_path):
    done = load(skypilot.plan(launches.one()).replace("num_nodes", "num_nods"), tmp_path)
    assert done.returncode and "num_nods" in done.stderr


class Sky:
    """The few functions of SkyPilot's client that a launch needs."""

    def __init__(self):
        self.records, self.cancelled, self.launched = [], [], []
        self.exceptions = types.SimpleNamespace(
            ClusterNotUpError=type("ClusterNotUpError", (Exception,), {}),
            ClusterDoesNotExist=type("ClusterDoesNotExist", (ValueError,), {}),
        )
        self.Task = types.SimpleNamespace(from_yaml_config=lambda x: types.SimpleNamespace(**x))
        self.jobs = self

    def get(self, request):
        if not self.records and request == ("queue",):
            raise self.exceptions.ClusterDoesNotExist("no controller")
        return ([*self.records], 0, {}, 0) if request == ("queue",) else request

    def queue_v2(self, refresh):
        return ("queue",)

    def launch(self, task, name):
        self.launched.append(vars(task))
        self.add(name, "PENDING")
        return [len(self.records)], None

    def add(self, name, status):
        record = {"job_id": len(self.records) + 1, "job_name": name}
        record["status"] = types.SimpleNamespace(value=status)
        self.records.append(types.SimpleNamespace(**record))

    def cancel(self, job_ids, graceful):
        self.cancelled += job_ids

    def tail_logs(self, job_id, follow, tail, output_stream):
        output_stream.write(f"log of {job_id}, {tail} lines")


@pytest.fixture
def sky(monkeypatch):
    client = Sky()
    monkeypatch.setattr(skypilot, "_sky", lambda: client)
    return client


def test_a_job_is_submitted_once_while_it_runs_and_again_afterwards(sky):
    launch = launches.one()
    [name] = [job.name for job in launch.jobs]
    assert skypilot.submit(launch, [name]) == {name: "1"}
    assert sky.launched == [task_of()]
    assert skypilot.submit(launch, [name]) == {name: "1"} and len(sky.launched) == 1
    sky.records[-1].status.value = "CANCELLED"
    assert skypilot.submit(launch, [name]) == {name: "2"} and len(sky.launched) == 2


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("PENDING", State.WAITING),
        ("STARTING", State.WAITING),
        ("RECOVERING", State.WAITING),
        ("RUNNING", State.RUNNING),
        ("SUCCEEDED", State.DONE),
        ("FAILED", State.FAILED),
        ("FAILED_NO_RESOURCE", State.FAILED),
        ("CANCELLED", State.UNKNOWN),
    ],
)
def test_the_state_is_that_of_the_newest_managed_job(sky, status, state):
    launch = launches.one()
    job = launch.jobs[0]
    name = remote.object_name(launch, job)
    assert skypilot.states(launch, {job.name: "2"}) == {job.name: State.UNKNOWN}
    sky.add(name, "FAILED")
    sky.add(name, status)
    sky.add("another", "FAILED")
    assert skypilot.states(launch, {job.name: "2"}) == {job.name: state}
    assert skypilot.logs(launch, job) == "log of 2, 1000 lines"


@needs_sky
def test_every_status_of_skypilot_has_a_state(tmp_path):
    code = "import sky.jobs; print(*(x.value for x in sky.jobs.ManagedJobStatus))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    failures = {x for x in done.stdout.split() if x.startswith("FAILED")}
    assert set(done.stdout.split()) - failures <= set(skypilot._STATES)


def test_refusals_are_one_line(sky, monkeypatch):
    def launch(task, name):
        raise LookupError("Volume runs\nnot found")

    monkeypatch.setattr(sky, "launch", launch)
    with pytest.raises(ValueError, match="^SkyPilot: Volume runs not found$"):
        skypilot.submit(launches.one(), [launches.job().name])


def test_jobs_are_cancelled_by_their_numbers(sky):
    skypilot.cancel(launches.one(), {"a": "3", "b": "4"})
    skypilot.cancel(launches.one(), {})
    assert sky.cancelled == [3, 4]
