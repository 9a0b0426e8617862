import pathlib
import re

import launches
import pytest

from launchers.cluster import remote
from launchers.cluster.backend import State
from launchers.cluster.launch import Job, Launch, Stage


class Cluster:
    """States of jobs; the next poll finds what `then` says."""

    def __init__(self, *then, **states):
        self.now, self.then = {k: State(v) for k, v in states.items()}, list(then)
        self.submitted, self.most = [], 0

    def submit(self, stage, job):
        self.submitted.append(job.name)
        self.now[job.name] = State.WAITING
        running = [s for s in self.now.values() if s in (State.WAITING, State.RUNNING)]
        self.most = max(self.most, len(running))
        return f"number of {job.name}"

    def states(self):
        return dict(self.now)

    def sleep(self, seconds):
        self.now |= {name: State(state) for name, state in self.then.pop(0).items()}


@pytest.fixture
def turns(monkeypatch):
    def run(launch, cluster, names="abc"):
        monkeypatch.setattr(remote.time, "sleep", cluster.sleep)
        return remote.submit_in_turn(launch, list(names), cluster.submit, cluster.states)

    return run


def test_names_are_dns_labels_that_no_other_job_has():
    names = ["a", "A", "1", "x" * 200, "x" * 201, "coin__lr=1e-3", "coin__lr=1e_3", "a.", "a@+-"]
    launch = Launch("x", pathlib.Path("x"), (Stage("x", tuple(map(launches.job, names))),))
    made = [remote.object_name(launch, job) for job in launch.jobs]
    assert len(set(made)) == len(names)
    assert all(re.fullmatch(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?", name) for name in made)
    elsewhere = Launch("x", pathlib.Path("y"), launch.stages)
    assert not {remote.object_name(elsewhere, job) for job in launch.jobs} & set(made)


@pytest.mark.parametrize(
    ("workdir", "inside"),
    [("runs/a", "/mnt/runs/runs/a"), ("/mnt/runs/a", "/mnt/runs/a")],
)
def test_run_directories_are_on_the_volume(workdir, inside):
    launch = launches.one()
    job = launches.job(workdir=workdir)
    line = remote.command("python", job, launch.stages[0].resources)
    assert line[-2:] == [f"--workdir={inside}", "--stopped_code=75"]


@pytest.mark.parametrize("workdir", ["/home/me/runs/a", "../a", "/mnt/runs/../a"])
def test_other_directories_are_errors(workdir):
    job = launches.job(workdir=workdir)
    with pytest.raises(ValueError, match=r"expected a directory below /mnt/runs, where the volume"):
        remote.command("python", job, launches.one().stages[0].resources)


def test_a_launch_without_stages_that_wait_is_submitted_at_once(turns):
    cluster = Cluster()
    launch = launches.one()
    name = launch.jobs[0].name
    assert turns(launch, cluster, [name]) == {name: f"number of {name}"}


def test_a_stage_begins_when_all_jobs_before_it_have_ended_well(turns, capsys):
    cluster = Cluster(dict(a="done", b="running"), dict(b="running"), dict(b="done"))
    assert list(turns(launches.two_stages(), cluster)) == ["a", "b", "c"]
    assert not cluster.then
    assert "2 jobs submitted, 1 wait for others" in capsys.readouterr().err


@pytest.mark.parametrize("end", ["failed", "unknown"])
def test_a_stage_does_not_begin_after_a_job_that_failed_or_was_cancelled(turns, end):
    cluster = Cluster(dict(a="done", b=end))
    with pytest.raises(ValueError, match="'b' failed or was cancelled, and stage 'second' waits"):
        turns(launches.two_stages(), cluster)
    assert cluster.submitted == ["a", "b"]


def test_a_job_that_failed_once_and_is_submitted_again_is_waited_for(turns):
    cluster = Cluster(dict(a="done"), a="failed", b="done")
    assert list(turns(launches.two_stages(), cluster, "ac")) == ["a", "c"]


def test_jobs_that_were_left_out_and_are_not_known_have_ended(turns):
    assert list(turns(launches.two_stages(), Cluster(), "c")) == ["c"]


def test_jobs_that_were_left_out_and_run_are_waited_for(turns):
    cluster = Cluster(dict(a="running"), dict(a="done"), a="running")
    assert list(turns(launches.two_stages(), cluster, "c")) == ["c"]
    assert not cluster.then


def test_no_more_jobs_are_there_than_may_be_at_once(turns):
    cluster = Cluster(dict(a="running"), dict(a="done"), dict(b="done"))
    assert list(turns(launches.two_stages(at_once=1), cluster)) == ["a", "b", "c"]
    assert cluster.most == 1 and not cluster.then


def test_a_job_that_runs_already_takes_no_more_room(turns):
    cluster = Cluster(dict(a="done", b="done"), b="running")
    assert list(turns(launches.two_stages(at_once=2), cluster)) == ["a", "b", "c"]
    assert cluster.most == 2


def test_the_volume_is_asked_for():
    with pytest.raises(ValueError, match="volume is missing: .* expected NAME:/PATH"):
        remote.command("python", Job("a", (), pathlib.Path("a")), launches.Resources())
    with pytest.raises(ValueError, match="volume='runs': expected NAME:/PATH"):
        launches.one(volume="runs")
