"""A sweep on a real Slurm of this machine: pytest -m slurm tests/launchers/cluster.

It needs slurm-wlm, munge and root, and takes 20 minutes on two busy cores: three of processors, the
rest is waiting, for the starts of forty processes and for time limits.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import pytest
import slurm
from commands import free_port

from agentrl.run import metrics
from launchers.cluster import cells, check, records, reports
from launchers.cluster import slurm as backend
from launchers.cluster.backend import State
from launchers.cluster.launch import Launch, Resources, Stage

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(slurm.missing() is not None, reason=str(slurm.missing())),
]
SUPPORT = pathlib.Path(slurm.__file__).parent
ROOT = SUPPORT.parents[1]
CONFIG = str(SUPPORT / "slow.py")
FAILS = "taught__init_from"


@pytest.fixture(scope="module", autouse=True)
def environment(tmp_path_factory):
    """Jobs without this process's simulated devices, and with its modules."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("XLA_FLAGS", raising=False)
        path = [str(ROOT), str(SUPPORT), os.environ.get("PYTHONPATH", "")]
        patch.setenv("PYTHONPATH", os.pathsep.join(path))
        patch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "true")
        patch.setenv("AGENTRL_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("JAX_PLATFORMS", "cpu")
        for name in [name for name in os.environ if name.startswith("JAX_COMPILATION")]:
            patch.delenv(name)
        patch.syspath_prepend(SUPPORT)
        yield


def launch(workdir, missing, **resources):
    """Twelve cells in two stages and one job of two processes. One of the first stage begins from a
    run that is not there; one of the second takes longer than it is given."""
    given = {"cpus": 1, "hours": 10 / 60, **resources}
    grid = "optimizer.learning_rate=1e-3,2e-3,3e-3,4e-3,5e-3,6e-3,7e-3"
    first = cells.jobs(cells.cells([CONFIG], grid), workdir)
    fails = cells.Cell(FAILS, (f"--config={CONFIG}", f"--config.init_from={missing}"))
    first += cells.jobs([fails], workdir)
    then = []
    for job, pause in zip(first[:4], (7.0, 0.0, 0.0, 0.0), strict=True):
        arguments = (f"--config={CONFIG}", f"--config.init_from={job.workdir}")
        slow = (f"--config.advantage.pause={pause}",) if pause else ()
        then.append(cells.Cell(f"then_{job.name}", (*arguments, *slow)))
    both = cells.Cell("joined", (f"--config={CONFIG}", "--config.mesh.data=2"))
    return Launch(
        "sweep",
        workdir,
        (
            Stage("taught", first, Resources(**given)),
            Stage(
                "then",
                cells.jobs(then, workdir),
                Resources(**given | {"hours": 3 / 60}),
                after=("taught",),
            ),
            Stage("joined", cells.jobs([both], workdir), Resources(**given, nodes=2)),
        ),
        at_once=4,
    )


def wait_for(condition, seconds=1200):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, slurm.queue("squeue", "--array")
        time.sleep(1)


def lines(workdir):
    return [
        {k: v for k, v in line.items() if k not in metrics.MACHINE_METRICS}
        for line in metrics.read(workdir / "metrics.jsonl")
    ]


def states(launch):
    return {report.job.name: report.state for report in reports.reports(launch, "slurm")}


def updates(job):
    path = job.workdir / "metrics.jsonl"
    return metrics.read(path)[-1]["update"] if path.exists() and metrics.read(path) else 0


def at_work(launch):
    return any(state in (State.WAITING, State.RUNNING) for state in states(launch).values())


def undisturbed(workdir, monkeypatch):
    """The same on this machine, without a pause, and the two processes by hand."""
    monkeypatch.setenv("PAUSE", "0")
    whole = launch(workdir, workdir / "there")
    alone = Launch("first", workdir, whole.stages[:1])
    one = Launch("one", workdir, (Stage("one", alone.jobs[:1], Resources(cpus=1)),))
    reports.carry_out(one, "local")
    shutil.copytree(one.jobs[0].workdir, workdir / "there")
    joined = whole.jobs[-1]
    line = [sys.executable, "-m", "launchers.train", *joined.arguments]
    line += [f"--workdir={joined.workdir}", f"--coordinator=localhost:{free_port()}"]
    pair = [
        subprocess.Popen(
            [*line, "--num_processes=2", f"--process_id={i}"], stderr=subprocess.DEVNULL
        )
        for i in range(2)
    ]
    here = Launch("here", workdir, whole.stages[:2])
    found = reports.carry_out(here, "local")
    assert [process.wait(timeout=300) for process in pair] == [0, 0]
    assert all(report.state is State.DONE for report in found), found
    return whole


def test_a_sweep_that_is_pre_empted_out_of_time_and_failing_ends_as_if_undisturbed(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("PAUSE", "1")
    sweep = check.checked(launch(tmp_path / "slurm", tmp_path / "there"))
    first, then, joined = (stage.jobs for stage in sweep.stages)
    with slurm.cluster(tmp_path / "cluster"):
        planned = backend.plan(Launch("sweep", sweep.workdir, sweep.stages[:1], 4))
        reports.carry_out(sweep, "slurm")
        numbers = records.numbers(sweep.workdir)
        array = numbers[first[0].name].partition("_")[0]
        script = (sweep.workdir / "slurm" / f"{array}_submission.sh").read_text()
        assert script.strip() in planned and "--array=0-7%4" in script
        # Given again, it leaves alone what waits and runs.
        reports.carry_out(sweep, "slurm")
        assert records.numbers(sweep.workdir) == numbers
        # Three are pre-empted in the middle of their training.
        for job in first[:3]:
            wait_for(lambda job=job: updates(job) >= 2)
            running = slurm.queue("squeue", "--array", "-h", "-t", "R", "-o", "%i %j").split("\n")
            assert f"{numbers[job.name]} {job.name}" in running, "jobs are named after cells"
            assert len([line for line in running if line.startswith(f"{array}_")]) <= 4
            slurm.queue("scontrol", "requeue", numbers[job.name])
        wait_for(lambda: not at_work(sweep))
        # One failed, so four are not begun; all that is said where they are listed.
        found = {report.job.name: report for report in reports.reports(sweep, "slurm")}
        assert found[FAILS].state is State.FAILED
        assert "there holds no run" in found[FAILS].message, found[FAILS]
        for job in then:
            assert found[job.name].state is State.STOPPED
            assert found[job.name].message == f"not begun: it waits for {FAILS}"
        well = [*first[:-1], *joined]
        assert all(found[job.name].state is State.DONE for job in well), found
        for job in first[:3]:
            log = records.log_of(sweep, job).read_text()
            assert log.count("$ ") == 2 and "stopped and saved" in log, log
        # Its reason is mended, and all five go on.
        shutil.copytree(first[0].workdir, tmp_path / "there")
        reports.carry_out(sweep, "slurm", retry=True)
        changed = {n for n, x in records.numbers(sweep.workdir).items() if numbers[n] != x}
        assert changed == {FAILS, *(job.name for job in then)}
        wait_for(lambda: not at_work(sweep))
        found = reports.reports(sweep, "slurm")
        assert all(report.state is State.DONE for report in found), found
    # The slow one was told before its time was over, saved, and went on.
    log = records.log_of(sweep, then[0]).read_text()
    assert log.count("$ ") >= 2 and "stopped and saved" in log, log
    reference = undisturbed(tmp_path / "here", monkeypatch)
    for ours, theirs in zip(sweep.jobs, reference.jobs, strict=True):
        assert len(lines(ours.workdir)) == 20
        assert lines(ours.workdir) == lines(theirs.workdir), ours.name


def test_a_job_that_is_cancelled_saves_and_is_not_begun_again(tmp_path, monkeypatch):
    monkeypatch.setenv("PAUSE", "4")
    job = cells.jobs([cells.Cell("cancelled", (f"--config={CONFIG}",))], tmp_path / "run")
    one = check.checked(
        Launch("one", tmp_path / "run", (Stage("one", job, Resources(cpus=1, hours=0.5)),))
    )
    with slurm.cluster(tmp_path / "cluster"):
        reports.carry_out(one, "slurm")
        wait_for(lambda: updates(one.jobs[0]) >= 2)
        backend.cancel(one, records.numbers(one.workdir))
        wait_for(lambda: not at_work(one))
        time.sleep(10)
        assert not at_work(one)
        (report,) = reports.reports(one, "slurm")
        assert report.state is State.STOPPED and report.message == "saved"
        # SIGTERM of somebody else, as when a job is pre-empted with time to end: it is requeued.
        monkeypatch.setenv("PAUSE", "1")
        reports.carry_out(one, "slurm")
        before = report.update
        wait_for(lambda: updates(one.jobs[0]) >= before + 2)
        number = records.numbers(one.workdir)["cancelled"]
        slurm.queue("scancel", f"--signal={signal.SIGTERM.name}", number)
        wait_for(lambda: not at_work(one))
        (report,) = reports.reports(one, "slurm")
        assert report.state is State.DONE
        assert records.log_of(one, one.jobs[0]).read_text().count("stopped and saved") == 2
