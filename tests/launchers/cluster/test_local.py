"""Launches on this machine, of processes that train nothing."""

import dataclasses
import os
import pathlib
import signal
import sys
import threading
import time

import pytest

from launchers.cluster import cells, check, child, local, records, reports, table
from launchers.cluster.backend import State
from launchers.cluster.launch import Job, Launch, Resources, Stage

# What a job does, by the first of its arguments; it ends as launchers.train would.
SCRIPT = """
import os, pathlib, signal, sys, time
what, workdir = sys.argv[1], pathlib.Path(sys.argv[2])
workdir.mkdir(parents=True, exist_ok=True)
with (workdir / "begun").open("a") as file:
    file.write(os.environ.get("CUDA_VISIBLE_DEVICES", "") + "\\n")
if what == "fails" and not (workdir / "mended").exists():
    print("error: config.x=1: expected 2", flush=True)
    print("some library says goodbye", flush=True)
    sys.exit(2)
if what == "dies":
    os.kill(os.getpid(), signal.SIGKILL)
if what == "waits":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
    (workdir / "ready").touch()
    time.sleep(60)
time.sleep(float(what) if what[0].isdigit() else 0)
(workdir / "checkpoints" / "2").mkdir(parents=True)
"""


@pytest.fixture(autouse=True)
def no_training(monkeypatch):
    def command(job, resources):
        return [sys.executable, "-c", SCRIPT, job.arguments[0], str(job.workdir)]

    def checked(launch):
        stages = (
            dataclasses.replace(
                stage, jobs=tuple(dataclasses.replace(job, runs={"": 2}) for job in stage.jobs)
            )
            for stage in launch.stages
        )
        return dataclasses.replace(launch, stages=tuple(stages))

    monkeypatch.setattr(child, "command", command)
    monkeypatch.setattr(check, "checked", checked)
    monkeypatch.setattr(local, "_POLL_SECONDS", 0.02)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6,7")


def stage(workdir, name, *whats, after=(), **resources):
    made = cells.jobs([cells.Cell(f"{name}_{i}", (w,)) for i, w in enumerate(whats)], workdir)
    return Stage(name, made, Resources(**{"cpus": 1, **resources}), after)


def launch(workdir, *stages, at_once=0):
    return Launch("sweep", workdir, stages, at_once)


def states(found):
    return {report.job.name: report.state.value for report in found}


def begun(workdir, name):
    path = workdir / name / "begun"
    return path.read_text().splitlines() if path.exists() else []


def test_a_failed_job_is_told_and_only_a_retry_begins_it_again(tmp_path):
    one = launch(tmp_path, stage(tmp_path, "a", "well", "fails", "dies", "well"))
    found = reports.carry_out(one, "local")
    assert states(found) == {"a_0": "done", "a_1": "failed", "a_2": "failed", "a_3": "done"}
    assert found[1].message == "error: config.x=1: expected 2"
    assert found[2].message == "killed by SIGKILL"
    # In the table, too.
    rows = {row.cell: row for row in table.rows(found, "success_rate")}
    assert rows["a_1"].state == "failed" and rows["a_1"].message == found[1].message
    again = reports.carry_out(one, "local")
    assert again == found and len(begun(tmp_path, "a_0")) == len(begun(tmp_path, "a_1")) == 1
    (tmp_path / "a_1" / "mended").touch()
    retried = reports.carry_out(one, "local", retry=True)
    assert states(retried)["a_1"] == "done" and states(retried)["a_2"] == "failed"
    assert len(begun(tmp_path, "a_0")) == 1 and len(begun(tmp_path, "a_1")) == 2


def test_a_stage_waits_for_all_of_another_and_a_retry_takes_both(tmp_path):
    first = stage(tmp_path, "first", "0.2", "fails")
    two = launch(tmp_path, first, stage(tmp_path, "then", "well", after=("first",)))
    found = reports.carry_out(two, "local")
    assert states(found) == {"first_0": "done", "first_1": "failed", "then_0": "stopped"}
    assert found[2].message == "not begun: it waits for first_1"
    assert not begun(tmp_path, "then_0")
    (tmp_path / "first_1" / "mended").touch()
    assert set(states(reports.carry_out(two, "local", retry=True)).values()) == {"done"}
    last = [(tmp_path / name / "begun").stat().st_mtime for name in ("first_1", "then_0")]
    assert last == sorted(last)


def test_a_signal_is_passed_on_and_the_same_command_goes_on(tmp_path):
    one = launch(tmp_path, stage(tmp_path, "a", "waits", "well"), at_once=1)

    def cancel():
        while not (tmp_path / "a_0" / "ready").exists():
            time.sleep(0.02)
        seen.update(states(reports.reports(one, "local")))
        local.cancel(one, records.numbers(tmp_path))

    seen = {}
    one = check.checked(one)
    thread = threading.Thread(target=cancel)
    thread.start()
    found = reports.carry_out(one, "local")
    thread.join()
    assert seen == {"a_0": "running", "a_1": "waiting"}
    assert states(found) == {"a_0": "stopped", "a_1": "stopped"} and not begun(tmp_path, "a_1")
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert [job.name for job in reports.due(one, found, retry=False)] == ["a_0", "a_1"]


def test_jobs_share_devices_and_cpus_and_never_have_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    running, most = set(), []
    start, write = child.start, child.write_code

    def started(line, log, environment, **options):
        running.add(environment["CUDA_VISIBLE_DEVICES"])
        most.append(len(running))
        return start(line, log, environment, **options)

    def ended(path, code):
        running.discard(begun(tmp_path, path.name.removesuffix(".exit"))[-1])
        write(path, code)

    monkeypatch.setattr(child, "start", started)
    monkeypatch.setattr(child, "write_code", ended)
    one = launch(tmp_path, stage(tmp_path, "a", *["0.1"] * 6, devices=1))
    assert set(states(reports.carry_out(one, "local")).values()) == {"done"}
    given = [begun(tmp_path, f"a_{i}")[0] for i in range(6)]
    assert set(given) == {"4", "6", "7"} and max(most) == 3
    two = launch(tmp_path / "two", stage(tmp_path, "b", *["0.1"] * 2, devices=2))
    reports.carry_out(two, "local")
    assert [begun(tmp_path, f"b_{i}") for i in range(2)] == [["4,6"], ["4,6"]]


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        ({"devices": 4}, "devices=4: this machine has 3 GPUs"),
        ({"nodes": 2}, "nodes=2: this machine is one"),
        ({"queue": "long"}, "queue='long': this machine has none"),
    ],
)
def test_what_this_machine_has_not_is_refused(tmp_path, resources, message):
    one = launch(tmp_path, stage(tmp_path, "a", "well", **resources))
    with pytest.raises(ValueError, match=message):
        reports.carry_out(one, "local")
    with pytest.raises(ValueError, match=message):
        local.plan(one)


def test_a_job_is_known_by_its_process_and_not_by_a_number_that_another_may_have():
    number = local._Number.write(os.getpid())
    assert local._Number.read(number).state() is State.RUNNING
    other = number.replace(f"{os.getpid()}:", f"{os.getpid()}:1")
    assert local._Number.read(other).state() is State.UNKNOWN
    elsewhere = local._Number.read(f"elsewhere {number.partition(' ')[2]}")
    assert elsewhere.state() is State.UNKNOWN
    assert local._Number.read("12_3").state() is State.UNKNOWN


def test_a_launch_is_read_as_it_was_written(tmp_path):
    one = launch(
        tmp_path,
        stage(tmp_path, "a", "well", environment={"A": "b"}, memory_gib=2.5),
        stage(tmp_path, "b", "well", after=("a",)),
        at_once=3,
    )
    one = check.checked(one)
    records.write(one, "slurm")
    assert records.read(tmp_path) == (one, "slurm")
    with pytest.raises(ValueError, match="holds no launch"):
        records.read(tmp_path / "nothing")


def test_the_message_of_a_log_is_of_its_newest_beginning(tmp_path):
    job = Job("a", (), tmp_path / "a")
    one = launch(tmp_path, Stage("a", (job,)))
    log = records.log_of(one, job)
    log.parent.mkdir()
    log.write_text("$ x\nerror: first\n$ x\nbegins\nends badly\n")
    assert records.why(one, job) == "ended without an exit code: killed, or its machine failed"
    child.write_code(records.code_of(one, job), 1)
    assert records.why(one, job) == "ends badly"
    log.write_text(log.read_text() + "$ x\n")
    assert records.why(one, job) == "exit code 1"


def test_a_file_describes_a_launch(tmp_path):
    path = tmp_path / "mine.py"
    for text, message in (
        ("", "has no get_launch"),
        ("def get_launch(): return 3", "returned 3, expected a Launch"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            reports.launch_of(path)
    with pytest.raises(ValueError, match="expected a file of Python"):
        reports.launch_of(pathlib.Path("nowhere.py"))
