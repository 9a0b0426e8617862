"""Two processes on one machine train together, as two machines would."""

import os
import pathlib
import shutil
import socket
import subprocess
import sys

import numpy as np
import pytest

import configs
from agentrl.run import checkpoint, checksums, loop, metrics
from configs.start import frozen_lake

CONFIG = pathlib.Path(configs.__file__).parent / "start/frozen_lake.py"
CHANGES = {"updates": 2, "log_every": 1, "env.max_steps_in_episode": 6, "policy.hidden": (8,)}
CHANGES |= {"checkpoint.every": 1}
CHANGES |= {"evaluation.every": 2, "evaluation.episodes": 8, "learner.minibatches": 1}


def start(workdir, *flags):
    environment = {**os.environ, "JAX_DISABLE_MOST_OPTIMIZATIONS": "true"}
    given = [f"--config.{name}={value}" for name, value in CHANGES.items()]
    command = [sys.executable, "-m", "launchers.train", f"--config={CONFIG}", *given, *flags]
    return subprocess.Popen(
        [*command, f"--workdir={workdir}"],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )


def records(workdir):
    return [
        {k: v for k, v in line.items() if k not in metrics.MACHINE_METRICS}
        for line in metrics.read(workdir / "metrics.jsonl")
    ]


def start_both(workdir, *flags):
    """What each of two processes says, which train together."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    together = [f"--coordinator=localhost:{port}", "--num_processes=2", *flags]
    both = [start(workdir, *together, f"--process_id={i}") for i in range(2)]
    said = [process.communicate(timeout=240)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    # The first one speaks for both.
    assert "finished" in said[0] and "finished" not in said[1]
    return said


@pytest.fixture(scope="module")
def of_two(tmp_path_factory):
    """The run of two processes."""
    workdir = tmp_path_factory.mktemp("of_two") / "run"
    start_both(workdir)
    assert checkpoint.steps(workdir / "checkpoints") == [1, 2]
    return workdir


@pytest.mark.long
def test_the_first_of_two_processes_finds_what_is_damaged_for_both(of_two, tmp_path):
    workdir = tmp_path / "run"
    shutil.copytree(of_two, workdir)
    folder = workdir / "checkpoints" / "2"
    assert (folder / checksums.NAME).exists() and checksums.damage(folder) is None
    path = next(path for path in sorted(folder.rglob("d/*")) if path.is_file())
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    said = start_both(workdir, "--config.updates=3")
    assert f"{path} is not as it was saved" in said[0] and "warning: " not in said[1]
    assert checkpoint.steps(workdir / "checkpoints") == [1, 2, 3]
    assert all(checksums.damage(workdir / "checkpoints" / str(step)) is None for step in (1, 2, 3))
    assert (workdir / "checkpoints" / "2.damaged").exists()
    ours, theirs = records(workdir), records(of_two)
    assert [line["update"] for line in ours] == [1, 2, 3] and ours[:2] == theirs


def test_two_processes_equal_one_which_goes_on_from_their_checkpoint(of_two, tmp_path):
    shutil.copytree(of_two, tmp_path / "two")
    config = frozen_lake.get_config()
    config.update_from_flattened_dict({**CHANGES, "updates": 3, "mesh.data": 1})
    config.evaluation.every = 2
    for name in ("one", "two"):
        assert loop.run(config, tmp_path / name, command="test")
    one, two = records(tmp_path / "one"), records(tmp_path / "two")
    assert [line["update"] for line in two] == [1, 2, 3]
    for a, b in zip(one, two, strict=True):
        assert a.keys() == b.keys()
        for key in a:
            np.testing.assert_allclose(a[key], b[key], rtol=1e-4, atol=1e-5, err_msg=key)
    evaluated = [(tmp_path / name / "eval" / "update_000002.json") for name in ("one", "two")]
    assert evaluated[0].read_text() == evaluated[1].read_text()
