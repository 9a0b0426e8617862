"""Two processes on one machine train together, as two machines would."""

import os
import pathlib
import socket
import subprocess
import sys

import numpy as np

import configs
from agentrl.run import checkpoint, loop, metrics
from configs.start import frozen_lake

CONFIG = pathlib.Path(configs.__file__).parent / "start/frozen_lake.py"
CHANGES = {"updates": 2, "log_every": 1, "env.max_steps_in_episode": 6, "policy.hidden": (8,)}
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


def test_two_processes_equal_one_which_goes_on_from_their_checkpoint(tmp_path):
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    together = [f"--coordinator=localhost:{port}", "--num_processes=2"]
    both = [start(tmp_path / "two", *together, f"--process_id={i}") for i in range(2)]
    said = [process.communicate(timeout=240)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    # The first one speaks for both.
    assert "finished" in said[0] and "finished" not in said[1]
    assert checkpoint.steps(tmp_path / "two" / "checkpoints") == [2]
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
