"""Launches as sbatch would get them; a real Slurm is in test_slurm_cluster.py."""

import pathlib
import re

import pytest

pytest.importorskip("submitit")

from launchers.cluster import records, slurm, task
from launchers.cluster.backend import State
from launchers.cluster.launch import Job, Launch, Resources, Stage

RESOURCES = {
    "nodes": 2,
    "devices": 4,
    "device": "h100",
    "cpus": 16,
    "memory_gib": 1.5,
    "hours": 2.0,
    "queue": "long",
    "account": "us",
    "qos": "low",
    "constraint": "nvlink",
    "environment": {"GREETING": "it's me"},
}


def launch(*, workdir="runs/sweep", at_once=0, jobs=3, **resources):
    def made(name, count):
        return tuple(
            Job(f"{name}_{i}", ("--config=x.py", "--config.a=(1, 2)"), pathlib.Path(f"r/{name}{i}"))
            for i in range(count)
        )

    given = Resources(**resources)
    stages = (
        Stage("first", made("first", jobs), given),
        Stage("then", made("then", 1), given, after=("first",)),
    )
    return Launch("sweep", pathlib.Path(workdir), stages, at_once, retries=5)


def options(script):
    return dict(re.findall(r"^#SBATCH --([\w-]+)(?:=(.*))?$", script, flags=re.MULTILINE))


def test_a_plan_has_every_resource():
    first, then = slurm.plan(launch(at_once=2, **RESOURCES)).split("# then: sbatch")
    got = options(first)
    expected = {
        "nodes": "2",
        "ntasks-per-node": "1",
        "gpus-per-node": "h100:4",
        "cpus-per-task": "16",
        "mem": "1536M",
        "time": "120",
        "signal": "USR2@600",
        "partition": "long",
        "account": "us",
        "qos": "low",
        "constraint": "nvlink",
        "array": "0-2%2",
        "job-name": "sweep.first",
        "requeue": "",
    }
    assert expected.items() <= got.items() and "dependency" not in got
    assert "export GREETING='it'\"'\"'s me'" in first
    # One process of a node has all of its devices.
    assert "export JAX_LOCAL_DEVICE_IDS=0,1,2,3" in first
    assert re.search(r"^srun .*--cpus-per-task=16 ", first, flags=re.MULTILINE)
    assert "# 2  first_2: " in first and "'--config.a=(1, 2)' --workdir=r/first2" in first
    assert "--distributed --stopped_code=75" in first
    # A single job is no array, and it does not wait for what cannot come.
    got = options(then)
    assert "array" not in got and got["kill-on-invalid-dep"] == "yes"
    assert got["dependency"] == "'afterok:<3 jobs of first>'"


def test_a_plan_asks_for_nothing_that_was_not_given():
    got = options(slurm.plan(launch()).split("# then: sbatch")[0])
    absent = {"mem", "gpus-per-node", "partition", "account", "qos", "constraint"}
    assert not absent & got.keys()
    assert got["array"] == "0-2%3" and got["nodes"] == "1" and got["time"] == "240"
    assert "export JAX" not in slurm.plan(launch()) and "--distributed" not in slurm.plan(launch())


@pytest.mark.parametrize(("hours", "minutes", "notice"), [(4, 240, 600), (0.05, 3, 45)])
def test_the_signal_comes_before_the_time_is_over(hours, minutes, notice):
    got = options(slurm.plan(launch(hours=hours)).split("# then: sbatch")[0])
    assert (got["time"], got["signal"]) == (str(minutes), f"USR2@{notice}")


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        ({"image": "x"}, "image='x': Slurm's jobs run in the environment"),
        ({"volume": "a:/b"}, "volume='a:/b'"),
        ({"device": "v5e:2x4"}, "Slurm has no slices of TPUs"),
    ],
)
def test_what_slurm_has_not_is_refused(resources, message):
    with pytest.raises(ValueError, match=message):
        slurm.plan(launch(**resources))


def fake(tmp_path, monkeypatch, **texts):
    """Commands of Slurm that print these texts; an error if they begin with it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in texts.items():
        path = folder / name
        code = text.startswith("slurm_error")
        place = " >&2" if code else ""
        path.write_text(f"#!/bin/sh\necho x >> {tmp_path}/{name}.calls\n")
        path.write_text(f"{path.read_text()}cat <<'E'{place}\n{text}\nE\nexit {int(code)}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_states_are_squeues(tmp_path, monkeypatch):
    fake(
        tmp_path,
        monkeypatch,
        squeue="7_0 RUNNING\n7_1 PENDING\n7_2 TIMEOUT\n7_3 CANCELLED\n8 COMPLETED",
    )
    numbers = {"a": "7_0", "b": "7_1", "c": "7_2", "d": "7_3", "e": "8", "f": "9"}
    assert slurm.states(launch(), numbers) == {
        "a": State.RUNNING,
        "b": State.WAITING,
        "c": State.FAILED,
        "d": State.UNKNOWN,
        "e": State.DONE,
        "f": State.UNKNOWN,
    }


@pytest.mark.parametrize(("said", "calls"), [("Socket timed out", 4), ("Invalid user id", 1)])
def test_a_busy_controller_is_asked_again_a_few_times(tmp_path, monkeypatch, said, calls):
    monkeypatch.setattr(slurm, "_PAUSE_SECONDS", 0.0)
    fake(tmp_path, monkeypatch, squeue=f"slurm_error: {said}")
    with pytest.raises(ValueError, match=f"^Slurm: slurm_error: {said}$"):
        slurm.states(launch(), {"a": "7"})
    assert len((tmp_path / "squeue.calls").read_text().split()) == calls


def test_what_sbatch_refuses_is_said_and_nothing_stays_submitted(tmp_path, monkeypatch):
    refusal = "slurm_error: invalid partition specified: long"
    fake(tmp_path, monkeypatch, sbatch=refusal, squeue="", srun="")
    one = launch(workdir=tmp_path / "sweep", queue="long")
    with pytest.raises(ValueError, match="Slurm: .*invalid partition specified: long"):
        slurm.submit(one, [job.name for job in one.jobs])
    assert records.numbers(one.workdir) == {}


def test_a_task_that_was_begun_too_often_fails_and_says_so(tmp_path, monkeypatch):
    for name, value in (("SLURM_RESTART_COUNT", "3"), ("SLURM_JOB_ID", "7")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(task, "_scontrol", lambda *arguments: None)
    log, code = tmp_path / "a.log", tmp_path / "a.exit"
    training = task.Training("a", ["false"], log, code, retries=2)
    with pytest.raises(RuntimeError, match="exit code 1"):
        training()
    assert "error: begun again 2 times, which is all" in log.read_text()
    assert code.read_text() == "1\n"
