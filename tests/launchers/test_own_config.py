"""A config file and a module of a user's own, from outside the package, on the command line."""

import json
import os
import pathlib

import pytest
from commands import call
from in_process import launch

OUTSIDE = pathlib.Path(__file__).parents[1] / "support" / "outside"
CONFIG = f"--config={OUTSIDE / 'corridor_config.py'}"


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(OUTSIDE), prepend=os.pathsep)


def test_dry_run_prints_dotted_paths(tmp_path):
    done = call("train", CONFIG, "--dry_run", "--config.advantage.price=0.5", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for word in ("corridor.Corridor", "corridor.faster_is_better", "price: 0.5"):
        assert word in done.stdout


def test_a_misspelt_path_is_refused(monkeypatch):
    monkeypatch.syspath_prepend(OUTSIDE)
    _, _, error = launch(["launchers.train", CONFIG, "--dry_run", "--config.advantage.prise=0.5"])
    assert "prise" in error


@pytest.mark.long
def test_it_learns(tmp_path):
    done = call("train", CONFIG, f"--workdir={tmp_path / 'run'}")
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    last = [record for record in records if "typical_length" in record][-1]
    assert last["success_rate"] > 0.9 and last["typical_length"] < 8
