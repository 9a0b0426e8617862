"""A rung of a search is a prefix of the whole run, and a search over real runs."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from commands import QUICK
from in_process import launch

from agentrl.run import loop, metrics, restored

ROOT, SUPPORT = pathlib.Path(__file__).parents[2], pathlib.Path(tiny.__file__).parent
CONFIG = """
import tiny
def get_config():
    return tiny.groups_config(updates=6, num_seeds=2)
"""


def lines(workdir):
    """Metrics lines without what is measured of the machine."""
    return [
        {k: v for k, v in line.items() if k not in metrics.MACHINE_METRICS}
        for line in metrics.read(workdir / "metrics.jsonl")
    ]


def test_a_run_stopped_at_rungs_is_the_run_at_once(tmp_path):
    """Bitwise, with a learning rate and a weight that go by how much of the run is done."""
    config = tiny.groups_config(
        optimizer__schedule="linear",
        objective__entropy__weight=0.1,
        objective__entropy__final_weight=0.001,
        evaluation__every=4,
        evaluation__episodes=4,
    )
    assert loop.run(config, tmp_path / "whole", command="test")
    whole = lines(tmp_path / "whole")
    # Programs are of two updates.
    for stop_after, end in ((3, 4), (None, 8)):
        # It did what it was asked for: a scheduler has nothing to begin again.
        assert loop.run(config, tmp_path / "rungs", command="test", stop_after=stop_after)
        assert lines(tmp_path / "rungs") == [line for line in whole if line["update"] <= end]
    ours, theirs = restored.load(tmp_path / "rungs"), restored.load(tmp_path / "whole")
    for a, b in zip(jax.tree.leaves(ours.state), jax.tree.leaves(theirs.state), strict=True):
        if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        np.testing.assert_array_equal(a, b)
    # A run of so many updates is another: its schedules end there.
    config.updates = 4
    assert loop.run(config, tmp_path / "short", command="test")
    assert lines(tmp_path / "short") != whole[: len(lines(tmp_path / "short"))]


@pytest.fixture(scope="module")
def arguments(tmp_path_factory):
    """A search of three cells, of which one goes on, without its --workdir."""
    folder = tmp_path_factory.mktemp("search")
    (folder / "lake.py").write_text(CONFIG)
    return [
        f"--configs={folder / 'lake.py'}",
        "--search=halving",
        "--space=optimizer.learning_rate=1e-3,1e-2,3e-2",
        "--rungs=2",
        "--fresh_seeds=0",
    ]


@pytest.fixture(scope="module", autouse=True)
def where_processes_find_modules():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(SUPPORT)]))
        yield


def search(arguments, workdir, errors):
    """A process that searches, what it says as lines, its errors in a file."""
    line = [sys.executable, "-m", "launchers.sweep", f"--workdir={workdir}", *arguments]
    with errors.open("w") as file:
        return subprocess.Popen(
            line, env=os.environ | QUICK, stdout=subprocess.PIPE, stderr=file, text=True
        )


@contextlib.contextmanager
def stopped(pid):
    """Holds a process up; it goes on afterwards in any case."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.long
def test_a_killed_search_waits_for_the_run_that_outlived_it(arguments, tmp_path):
    """The search is killed alone, while its second cell trains.

    That cell stands still until the search that is begun again has seen it: it cannot end before.
    """
    workdir, errors = tmp_path / "sweep", tmp_path / "errors"
    second = workdir / "lake__optimizer.learning_rate=1e-2"
    with search(arguments, workdir, tmp_path / "errors_of_the_killed") as process:
        # Written when the directory is locked, before the first program is compiled.
        while not (second / "process.json").exists():
            assert process.poll() is None, "the search ended before its second cell"
            time.sleep(0.05)
        with stopped(json.loads((second / "process.json").read_text())["pid"]):
            process.kill()
            process.wait()
            again = search(arguments, workdir, errors)
            waits = any(line.startswith(f"waiting for {second},") for line in again.stdout)
    with again:
        said = again.stdout.read()
    assert waits and again.returncode == 0, errors.read_text()
    updates = {
        path.parent.name: [line["update"] for line in lines(path.parent) if line["seed"] == 0]
        for path in workdir.glob("*/metrics.jsonl")
    }
    assert sorted(updates.values()) == [[2], [2], [2, 4, 6]]
    assert len([x for x in said.splitlines() if x.strip().startswith("0.")]) == 3
    _, _, error = launch(["launchers.report", f"--sweep={workdir}"])
    assert not error
    text = (workdir / "report.html").read_text()
    for section in ("parallel", "cells", "command"):
        assert f'id="{section}"' in text


def test_what_a_search_would_run_is_printed(arguments, tmp_path):
    words = ["launchers.sweep", f"--workdir={tmp_path / 'x'}", *arguments, "--dry_run"]
    _, out, error = launch(words)
    assert not error
    assert out.startswith("halving: 3 to update 2, 1 to update 6: 10 of 18 updates\n")
    assert out.count("--config.optimizer.learning_rate=") == 3
    assert not (tmp_path / "x").exists()


def test_a_space_without_a_search_is_refused(tmp_path):
    words = ["launchers.sweep", f"--workdir={tmp_path}", "--configs=a.py", "--space=a=1,2"]
    _, _, error = launch(words)
    assert "--space is of a search" in error and "--search=grid|random|tpe|halving" in error


def test_without_optuna_one_line_says_what_to_install(arguments, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)  # importing it raises ImportError
    _, _, error = launch(["launchers.sweep", f"--workdir={tmp_path / 'x'}", *arguments])
    assert "pip install 'agentrl[sweep]'" in error and len(error.splitlines()) == 1
