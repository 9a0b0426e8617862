"""Writers: what W&B and MLflow hold is what metrics.jsonl has, whatever ends a run in between."""

import importlib.util
import json
import os
import subprocess
import sys

import pytest
import tiny
import wandb_files

from agentrl.config import base
from agentrl.run import loop, metrics, writers

KILLED = """
import json, os, pathlib, signal, sys
from agentrl.run import metrics

with metrics.Writer(pathlib.Path(sys.argv[1]), [0], sys.argv[2:], print) as writer:
    for update in (2, 4, 6):
        writer.write({"seed": 0, "update": update, "env_steps": 10 * update, "x": update / 4})
        writer.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def without_network(monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME", "WANDB_PROJECT"):
        monkeypatch.delenv(name, raising=False)


def of_mlflow(workdir):
    """{name in all trackers: (run, {metric: [(step, value)]})}."""
    import mlflow

    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{workdir / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("agentrl").experiment_id
    out = {}
    for run in client.search_runs([experiment]):
        histories = {
            key: [(one.step, one.value) for one in client.get_metric_history(run.info.run_id, key)]
            for key in run.data.metrics
        }
        out[run.data.tags[writers.TAG]] = run, histories
    return out


def series(lines):
    """{metric: [(step, value)]} of records."""
    names = {name for line in lines for name in line} - {"seed", "update"}
    return {
        name: [(line["update"], line[name]) for line in lines if name in line] for name in names
    }


@pytest.mark.long
def test_what_trackers_hold_is_what_the_file_has(tmp_path):
    """A run that stops and resumes, two seeds."""
    pytest.importorskip("wandb")
    pytest.importorskip("mlflow")
    pytest.importorskip("alembic")
    workdir = tmp_path / "run"
    config = tiny.groups_config(num_seeds=2, updates=6, writers=("wandb", "mlflow"))
    assert loop.run(config, workdir, command="test", stop_after=4)
    config.updates = 8
    assert loop.run(config, workdir, command="test")
    assert not (workdir / "tb").exists()
    lines = metrics.read(workdir / "metrics.jsonl")
    stored = json.loads((workdir / "config.json").read_text())
    name = json.loads((workdir / writers.NAMED).read_text())["run"]
    runs = of_mlflow(workdir)
    assert runs.keys() == {f"{name}-0", f"{name}-1"}
    for seed in range(2):
        own = [line for line in lines if line["seed"] == seed]
        assert [line["update"] for line in own] == [2, 4, 6, 8]
        run, histories = runs[f"{name}-{seed}"]
        assert histories == series(own)
        assert run.info.status == "FINISHED"
        assert run.info.run_name == f"{tmp_path.name}/run/seed_{seed}"
        assert run.data.params["seed"] == str(seed)
        assert run.data.params["optimizer.learning_rate"] == str(
            stored["optimizer"]["learning_rate"]
        )
        config_there, history = wandb_files.logged(workdir, f"{name}-{seed}")
        assert series(history) == series(own)
        assert {k: x for k, x in config_there.items() if k != "_wandb"} == {**stored, "seed": seed}


def test_a_killed_process_leaves_no_gap_and_no_repetition(tmp_path):
    """Killed two updates after the checkpoint, from where the lines are written again."""
    pytest.importorskip("wandb")
    pytest.importorskip("mlflow")
    pytest.importorskip("alembic")
    (tmp_path / "config.json").write_text('{"updates": 8}')
    names = ("wandb", "mlflow")
    command = [sys.executable, "-c", KILLED, str(tmp_path), *names]
    # Else it writes by the process that this one has started, which lives on.
    alone = {key: x for key, x in os.environ.items() if key != "WANDB_SERVICE"}
    assert subprocess.run(command, timeout=120, env=alone).returncode == -9
    name = json.loads((tmp_path / writers.NAMED).read_text())["run"]
    before = of_mlflow(tmp_path)
    metrics.rewind(tmp_path / "metrics.jsonl", 4)
    with (
        pytest.raises(RuntimeError, match="the training's own"),
        metrics.Writer(tmp_path, [0], names, print) as writer,
    ):
        for update in (6, 8):
            writer.write({"seed": 0, "update": update, "env_steps": 10 * update, "x": update / 4})
            writer.flush()
        raise RuntimeError("the training's own")
    whole = {
        "x": [(2, 0.5), (4, 1.0), (6, 1.5), (8, 2.0)],
        "env_steps": [(2, 20), (4, 40), (6, 60), (8, 80)],
    }
    ((identity, (run, histories)),) = of_mlflow(tmp_path).items()
    assert identity == f"{name}-0" and histories == whole and run.info.status == "FAILED"
    assert run.info.run_id == before[identity][0].info.run_id
    assert series(wandb_files.logged(tmp_path, identity)[1]) == whole


class Flaky:
    """A tracker that keeps records in `held`, and does not answer to every third one."""

    held: list = []
    asked = 0

    def __init__(self, workdir):
        del workdir

    def write(self, record):
        Flaky.asked += 1
        if Flaky.asked % 3 == 0:
            raise ConnectionError("no answer\nfrom there")
        if record not in self.held:
            self.held.append(record)

    def close(self, *, failed):
        raise ConnectionError(f"failed={failed}")


def test_an_error_of_a_tracker_is_told_and_ends_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(writers, "TRACKERS", {"wandb": Flaky})
    monkeypatch.setattr(writers, "TIMES", 0.0)
    monkeypatch.setattr(Flaky, "held", [])
    records = [{"seed": 0, "update": update, "env_steps": update} for update in (1, 2, 3, 4)]
    said = []
    with metrics.Writer(tmp_path, [0], ("wandb",), lambda *words: said.append(words)) as writer:
        for i, record in enumerate(records):
            writer.write(record)
            writer.flush()
            # It is not asked again for a while, and then gets what it lacks.
            assert Flaky.held == records[: min(i + 1, 2)]
            if i == 2:
                assert [name for name, _ in said] == ["wandb"]
                assert "ConnectionError: no answer from there" in said[0][1]
    assert metrics.read(tmp_path / "metrics.jsonl") == records
    assert Flaky.held == records and "failed=False" in said[1][1]


def test_a_missing_package_is_told_before_anything_begins(tmp_path, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name: None if name in ("wandb", "alembic") else found(name),
    )
    for name in ("wandb", "mlflow"):
        config = tiny.groups_config(writers=(name,))
        with pytest.raises(ValueError, match=rf"needs the package .*'agentrl\[{name}\]'"):
            loop.run(config, tmp_path / "run", command="test")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("given", [("tensorboard,wandb",), ("wandb", "wandb"), ("comet",)])
def test_writers_are_different_known_ones(given):
    with pytest.raises(ValueError, match=r"config.writers=.*expected different ones of tensorb"):
        base.check(tiny.groups_config(writers=given))
