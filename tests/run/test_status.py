"""The state of a run, read off its directory: while it trains, after each way to end, on damage."""

import fcntl
import json
import os
import platform
import subprocess
import sys
import time

import ml_collections
import pytest
import tiny

from agentrl.run import loop, stages
from agentrl.run import status as states
from agentrl.run.restored import RunError
from agentrl.run.status import status
from agentrl.run.workdir import TRIES, claimed

COMMAND = "python -m launchers.train --config=mine.py:fast --workdir=run --config.updates=4"


def made(workdir, **changes):
    """A directory as a run of four updates and two seeds leaves it after the second."""
    (workdir / "checkpoints" / "2").mkdir(parents=True)
    config = {"updates": 4, "seed": 3, "num_seeds": 2}
    files = {"config.json": config, "provenance.json": {"command": COMMAND}}
    for name, content in (files | changes).items():
        text = content if isinstance(content, str) else json.dumps(content)
        (workdir / name).write_text(text)
    rows = [{"seed": s, "update": u, "success_rate": 0.1 * u + s} for u in (1, 2) for s in (3, 4)]
    rows += [{"seed": s, "update": 3, "entropy": 1.0} for s in (3, 4)]
    text = "".join(json.dumps(row) + "\n" for row in rows) + '{"seed": 3, "update": 4, "succ'
    (workdir / "metrics.jsonl").write_text(text)
    return workdir


def process(**changes):
    return {
        "host": platform.node(),
        "pid": 7,
        "started": 1.0,
        "ended": 2.0,
        "error": None,
    } | changes


def test_what_it_reads(tmp_path):
    found = status(made(tmp_path / "run", **{"process.json": process()}))
    assert (found.state, found.update, found.updates) == ("stopped", 3, 4)
    assert found.seeds == (3, 4) and found.config == "mine.py:fast"
    # The last lines that have it, over both seeds; the last line of all is not whole.
    assert found.metrics == pytest.approx({"success_rate": 0.2 + 3.5})
    assert found.pid == 7 and found.message == ""
    newest = max(path.stat().st_mtime for path in (tmp_path / "run").iterdir())
    assert found.changed == pytest.approx(newest)


def test_only_the_end_of_a_long_file_is_read(tmp_path, monkeypatch):
    made(tmp_path / "run")
    with (tmp_path / "run" / "metrics.jsonl").open("w") as file:
        for update in range(2000):
            file.write(json.dumps({"seed": 3, "update": update, "success_rate": 0.5}) + "\n")
    monkeypatch.setattr(states, "TAIL_BYTES", 500)
    assert len(states._last_lines(tmp_path / "run" / "metrics.jsonl")) < 12
    assert status(tmp_path / "run").update == 1999


def test_it_waits_without_a_directory_or_in_an_empty_one(tmp_path):
    assert status(tmp_path / "none").state == status(tmp_path).state == "waiting"
    assert status(tmp_path / "none").update is None


def test_done_is_the_last_checkpoint_and_the_last_evaluation(tmp_path):
    run = made(tmp_path / "run", **{"process.json": process()})
    (run / "checkpoints" / "4").mkdir()
    assert status(run).state == "done"
    (run / "pending.json").write_text('{"update": 4}')
    assert status(run).state == "stopped"


def test_a_lock_is_a_running_process_and_looking_leaves_none(tmp_path):
    run = made(tmp_path / "run", **{"process.json": process(ended=None)})
    found = status(run)
    assert (found.state, found.message) == ("stopped", "its process was killed")
    directory = os.open(run, os.O_RDONLY)
    fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)  # possible after the look
    assert status(run).state == "running"
    os.close(directory)
    assert status(run).state == "stopped"


def test_another_machines_run_is_known_by_what_it_writes(tmp_path):
    run = made(tmp_path / "run", **{"process.json": process(ended=None, host="node7")})
    assert (status(run).state, status(run).message) == ("running", "on node7")
    for path in run.iterdir():
        os.utime(path, (0, time.time() - 3600))
    found = status(run)
    assert found.state == "stopped" and "on node7" in found.message and "60 min" in found.message


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("config.json", "{", "config.json is not readable JSON"),
        ("config.json", "[1]", "config.json contains list"),
        ("config.json", {"updates": 4}, "not a run's config"),
        ("stages.json", {"stages": [1]}, "stages.json is not a list of stages"),
        ("process.json", "\x00", "process.json is not readable JSON"),
    ],
)
def test_damage_is_one_line(tmp_path, name, content, message):
    found = status(made(tmp_path / "run", **{name: content}))
    assert found.state == "broken" and message in found.message
    assert len(found.message.splitlines()) == 1


def test_other_files_are_no_run(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    assert status(tmp_path).state == "broken" and "no config.json" in status(tmp_path).message
    assert status(tmp_path / "thesis.tex").state == "broken"


def test_an_error_is_kept_until_the_next_start(tmp_path, monkeypatch):
    run, seen = tmp_path / "run", []

    def fails(*_):
        seen.append(status(run).state)
        raise RunError("out of\n luck")

    config = tiny.groups_config(updates=2)
    with monkeypatch.context() as patched:
        patched.setattr(loop, "_loop", fails)
        with pytest.raises(RunError):
            loop.run(config, run, command=COMMAND)
    found = status(run)
    assert seen == ["running"] and (found.state, found.message) == ("failed", "out of luck")
    assert found.pid == os.getpid() and found.host == platform.node() and found.update == 0
    assert loop.run(config, run, command=COMMAND)
    found = status(run)
    assert (found.state, found.update, found.message) == ("done", 2, "")
    assert found.metrics.keys() >= {"episode_return"}


def test_other_errors_are_named_and_a_refusal_is_no_failure(tmp_path):
    config = ml_collections.ConfigDict({"updates": 4, "seed": 0, "num_seeds": 1})
    with pytest.raises(MemoryError), claimed(tmp_path, config):
        raise MemoryError
    assert status(tmp_path).message == "MemoryError"
    with claimed(tmp_path, config):
        with pytest.raises(RunError, match="another process"), claimed(tmp_path, config):
            pass
        assert status(tmp_path).state == "running"
    assert status(tmp_path).state == "stopped"


def test_a_look_does_not_keep_a_run_from_starting(tmp_path, monkeypatch):
    """Whoever looks holds the lock for an instant, which training outwaits."""
    config = ml_collections.ConfigDict({"updates": 4, "seed": 0, "num_seeds": 1})
    looking = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    monkeypatch.setattr(time, "sleep", lambda seconds: fcntl.flock(looking, fcntl.LOCK_UN))
    with claimed(tmp_path, config):
        assert TRIES > 1
    os.close(looking)


def test_stages_are_one_run(tmp_path, monkeypatch):
    config = ml_collections.ConfigDict(
        {"stages": {name: tiny.groups_config(updates=4, num_seeds=1) for name in ("a", "b")}}
    )
    config.stages.b.init_from = "stage:a"
    ends = iter(["done", "stopped", "failed", "done"])

    def train(stage, directory, **_):
        end = next(ends)
        (directory / "checkpoints").mkdir(parents=True, exist_ok=True)
        note = process(error="not finite" if end == "failed" else None)
        (directory / "process.json").write_text(json.dumps(note))
        (directory / "config.json").write_text(
            json.dumps({"updates": 4, "seed": 0, "num_seeds": 1})
        )
        (directory / "metrics.jsonl").write_text('{"seed": 0, "update": 2, "success_rate": 0.5}\n')
        if end == "done":
            (directory / "checkpoints" / "4").mkdir()
        return end == "done"

    monkeypatch.setattr(loop, "run", train)
    run = tmp_path / "run"
    assert not stages.run(config, run, command=COMMAND)
    found = status(run)
    assert (found.state, found.update, found.updates) == ("stopped", 6, 8)
    assert [(s.workdir.name, s.state) for s in found.stages] == [("a", "done"), ("b", "stopped")]
    assert not stages.run(config, run, command=COMMAND)
    assert (status(run).state, status(run).message) == ("failed", "b: not finite")
    assert stages.run(config, run, command=COMMAND)
    assert status(run).state == "done" and status(run).update == 8
    # Between two stages nothing runs, and the same command goes on.
    for path in sorted((run / "b").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    assert status(run).state == "stopped"


def test_reading_imports_no_jax():
    code = "import sys, agentrl.run.status; assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
