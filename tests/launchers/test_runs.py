"""The list of runs: what is found and in which order, for people and for programs."""

import csv
import io
import json
import os
import pathlib

import pytest
from commands import call, refused

from launchers import runs


def make(workdir, changed, **content):
    """A run of four updates that ended after the last."""
    (workdir / "checkpoints" / "4").mkdir(parents=True)
    files = {
        "config.json": {"updates": 4, "seed": 0, "num_seeds": 3},
        "provenance.json": {"command": "python -m launchers.train --config=coin.py:grpo"},
        **content,
    }
    for name, what in files.items():
        (workdir / name).write_text(what if isinstance(what, str) else json.dumps(what))
    line = {"seed": 0, "update": 4, "success_rate": 0.25, "episode_return": 1.5}
    (workdir / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    for path in workdir.iterdir():
        os.utime(path, (changed, changed))


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Runs, one of stages, a damaged one, a sweep, and things that are no runs."""
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "runs/old", 1000)
    ended = {"host": "h", "pid": 3, "ended": 1.0, "error": "the loss is not finite"}
    make(tmp_path / "runs/new", 3000, **{"process.json": ended})
    make(tmp_path / "runs/sweep/cell", 2000)
    make(tmp_path / "runs/damaged", 500, **{"config.json": "{"})
    stages = [{"name": name, "updates": 4} for name in ("first", "then")]
    make(tmp_path / "runs/staged/first", 100)
    (tmp_path / "runs/staged/stages.json").write_text(json.dumps({"stages": stages}))
    (tmp_path / "runs/notes").mkdir()
    (tmp_path / "runs/notes/readme.txt").write_text("")
    os.symlink(tmp_path / "runs", tmp_path / "runs/notes/circle")
    make(tmp_path / "elsewhere/run", 4000)
    return tmp_path


def snapshot(folder):
    return {path: path.lstat().st_mtime_ns for path in pathlib.Path(folder).rglob("*")}


def test_all_runs_are_listed_last_changed_first_and_nothing_is_written(here):
    before = snapshot(here)
    done = call("runs", cwd=here)
    assert done.returncode == 0, done.stderr
    title, *lines = done.stdout.splitlines()
    assert title.split()[:3] == ["state", "update", "success"]
    names = ["new", "sweep/cell", "old", "damaged", "staged", "staged/first"]
    assert [next(w for w in line.split() if w.startswith("runs/")) for line in lines] == [
        f"runs/{name}" for name in names
    ]
    assert lines[0].startswith("failed") and lines[0].endswith("the loss is not finite")
    assert lines[1].split()[:5] == ["done", "4/4", "0.250", "1.500", "0-2"]
    assert "coin.py:grpo" in lines[1]
    assert lines[3].startswith("broken") and "config.json is not readable JSON" in lines[3]
    assert lines[4].startswith("stopped") and "4/8" in lines[4]
    assert snapshot(here) == before


def test_for_programs(here):
    listed = json.loads(call("runs", "--json", "elsewhere", "runs", cwd=here).stdout)
    assert [one["directory"] for one in listed[:2]] == ["elsewhere/run", "runs/new"]
    run = listed[0]
    assert (run["update"], run["updates"], run["success_rate"]) == (4, 4, 0.25)
    files = [path for path in (here / "elsewhere/run").rglob("*") if path.is_file()]
    assert run["bytes"] == sum(path.stat().st_size for path in files)
    assert run["changed"].startswith("1970-01-0") and run["seeds"] == "0-2"
    assert (listed[1]["host"], listed[1]["pid"]) == ("h", 3)
    text = call("runs", "--csv", "elsewhere", "runs", cwd=here).stdout
    table = list(csv.DictReader(io.StringIO(text)))
    assert len(table) == len(listed) and table[0].keys() == run.keys()
    assert table[1]["message"] == "the loss is not finite"


def test_a_directory_twice_is_listed_once_and_a_missing_one_refused(here):
    assert len(json.loads(call("runs", "--json", "elsewhere", "elsewhere", cwd=here).stdout)) == 1
    refused(call("runs", "nowhere", cwd=here), "nowhere: no such directory")
    empty = call("runs", "runs/notes/readme.txt/..", cwd=here)
    assert empty.returncode == 2


def test_no_runs(tmp_path):
    (tmp_path / "runs").mkdir()
    done = call("runs", cwd=tmp_path)
    assert done.returncode == 0 and done.stdout == "" and "no runs below runs" in done.stderr


def test_a_directory_that_cannot_be_read_is_one_line(here, monkeypatch):
    real = os.scandir

    def scandir(path):
        if pathlib.Path(path).name == "sweep":
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert pathlib.Path("runs/sweep") in list(runs.directories(pathlib.Path("runs")))


@pytest.mark.parametrize(
    ("seeds", "text"), [((), ""), ((3,), "3"), ((0, 1, 2, 5, 7, 8), "0-2,5,7-8")]
)
def test_seeds_as_ranges(seeds, text):
    assert runs._ranges(seeds) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (2048, "2.0 KiB"), (300 * 2**20, "300 MiB"), (2**42, "4.0 TiB")],
)
def test_sizes(number, text):
    assert runs._bytes(number) == text
