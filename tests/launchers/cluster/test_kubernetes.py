"""Kubernetes' own client against an API server of this process."""

import api_server
import launches
import pytest

from launchers.cluster import jobset, kubernetes, remote
from launchers.cluster.backend import State

client = pytest.importorskip("kubernetes", reason="needs Kubernetes' client")
PLACE = "/apis/jobset.x-k8s.io/v1alpha2/namespaces"


@pytest.fixture
def server(tmp_path, monkeypatch):
    path = tmp_path / "kubeconfig"
    for module in (client.config, client.config.kube_config):
        monkeypatch.setattr(module, "KUBE_CONFIG_DEFAULT_LOCATION", str(path))
    monkeypatch.setattr(kubernetes, "_DELETION_POLL_SECONDS", 0.0)
    monkeypatch.setattr(remote, "POLL_SECONDS", 0.0)
    with api_server.serve(path) as server:
        yield server


def names_of(launch):
    return {job.name: remote.object_name(launch, job) for job in launch.jobs}


def submit(launch):
    return kubernetes.submit(launch, [job.name for job in launch.jobs])


def test_what_is_printed_is_what_is_submitted(server):
    launch = launches.one(devices=8, device="h100", queue="research", account="team")
    assert submit(launch) == names_of(launch)
    [(_, _, printed)] = jobset.objects(launch)
    assert server.jobsets == {("team", printed["metadata"]["name"]): printed}
    assert f"POST {PLACE}/team/jobsets" in server.calls


def test_a_plan_contacts_nothing(server):
    kubernetes.plan(launches.one())
    assert not server.calls


def test_the_states_of_jobs_are_those_of_their_jobsets(server):
    launch = launches.one()
    numbers = submit(launch)
    [(job, name)] = numbers.items()

    def state():
        return kubernetes.states(launch, numbers)[job]

    assert state() is State.WAITING
    for expected, ready, conditions in (
        (State.WAITING, 0, {"Suspended": True}),
        (State.RUNNING, 1, {}),
        (State.RUNNING, 1, {"Suspended": False}),
        (State.WAITING, 0, {}),
        (State.FAILED, 0, {"Failed": True}),
        (State.DONE, 0, {"Completed": True}),
    ):
        server.state(name, ready=ready, **conditions)
        assert state() is expected
    server.jobsets.clear()
    assert state() is State.UNKNOWN


def test_states_of_other_launches_are_not_taken_for_ours(server):
    submit(launches.two_stages_elsewhere())
    assert kubernetes.states(launches.one(), {"a": "a"}) == {"a": State.UNKNOWN}


def test_a_job_that_runs_is_not_submitted_twice(server):
    launch = launches.one()
    [name] = submit(launch).values()
    server.state(name, ready=1)
    there = dict(server.jobsets)
    assert submit(launch) == names_of(launch)
    assert server.jobsets == there and not server.policies


def test_a_job_that_has_ended_is_replaced_when_its_pods_have_gone(server):
    launch = launches.one()
    [name] = submit(launch).values()
    server.state(name, Failed=True)
    server.stays[name] = 3
    submit(launch)
    assert server.policies == ["Foreground"]
    [found] = server.jobsets.values()
    assert "status" not in found and "deletionTimestamp" not in found["metadata"]


def test_cancelling_waits_for_the_pods_and_another_submission_goes_on(server):
    launch = launches.one()
    numbers = submit(launch)
    [(job, name)] = numbers.items()
    server.state(name, ready=1)
    server.stays[name] = 2
    kubernetes.cancel(launch, numbers)
    assert server.policies == ["Foreground"]
    assert kubernetes.states(launch, numbers)[job] is State.UNKNOWN
    assert submit(launch) == numbers
    kubernetes.cancel(launch, numbers)
    kubernetes.cancel(launch, numbers)  # which is gone
    assert not server.jobsets


def test_stages_are_submitted_in_their_turn(server, monkeypatch):
    launch = launches.two_stages()
    names = names_of(launch)
    seen = []

    def sleep(seconds):
        seen.append({name for _, name in server.jobsets})
        job = "ab"[len(seen) - 1]
        server.state(names[job], Completed=True)

    monkeypatch.setattr(remote.time, "sleep", sleep)
    assert submit(launch) == names
    assert seen == [{names["a"], names["b"]}] * 2


def test_the_log_is_that_of_the_newest_first_process(server):
    launch = launches.one()
    [name] = submit(launch).values()
    assert kubernetes.logs(launch, launch.jobs[0]) == ""
    for number, (pod, index) in enumerate((("old", 0), ("new", 0), ("other", 1))):
        labels = {"jobset.sigs.k8s.io/jobset-name": name}
        labels |= {"batch.kubernetes.io/job-completion-index": str(index)}
        created = f"2026-01-01T00:00:0{number}Z"
        server.pods["mine", f"pod-{pod}"] = labels, created, f"update 1 of {pod}\n"
    assert kubernetes.logs(launch, launch.jobs[0]) == "update 1 of new\n"
    labels, created, _ = server.pods["mine", "pod-new"]
    server.pods["mine", "pod-new"] = labels, created, None
    assert kubernetes.logs(launch, launch.jobs[0]) == ""


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((403, {"message": "jobsets is forbidden"}), "Kubernetes: 403 .*forbidden"),
        ((404, "404 page not found"), "Kubernetes: 404 .*the cluster needs JobSet's controller"),
    ],
)
def test_refusals_are_one_line(server, answer, message):
    server.refuses = answer
    with pytest.raises(ValueError, match=message) as error:
        submit(launches.one())
    assert "\n" not in str(error.value)


def test_a_cluster_that_is_not_there_is_one_line(tmp_path, monkeypatch):
    for module in (client.config, client.config.kube_config):
        monkeypatch.setattr(module, "KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "none"))
    with pytest.raises(ValueError, match=r"no cluster: .* expected a kubeconfig") as error:
        submit(launches.one())
    assert "\n" not in str(error.value)
