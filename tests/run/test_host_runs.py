"""Runs with environments in Python: resumed, stopped, with a sampler that lags behind."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

from agentrl.config.build import build
from agentrl.run import loop, mesh, metrics, restored
from agentrl.run.programs import compile_programs

# Where a process of its own finds `tiny`.
SUPPORT = pathlib.Path(tiny.__file__).parent


def lines(workdir):
    return [
        {k: v for k, v in line.items() if k not in metrics.MACHINE_METRICS}
        for line in metrics.read(workdir / "metrics.jsonl")
    ]


def test_resumed_equals_uninterrupted(tmp_path):
    """The environment's answers take their time, another each time; nothing depends on it.

    With a sampler that lags behind the learner, and is saved with it.
    """
    changes = {"num_seeds": 2, "staleness": 1, "objective__policy__scale": "importance"}
    changes |= {"components__importance": {"cap": 2.0}}
    changes |= {"evaluation__every": 2, "evaluation__episodes": 4}
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert loop.run(tiny.host_config(**changes), whole, command="test")
    for updates in (2, 4):
        assert loop.run(tiny.host_config(updates=updates, **changes), parts, command="test")
    assert lines(parts) == lines(whole)
    ours, theirs = restored.load(parts), restored.load(whole)
    chex.assert_trees_all_equal(ours.state.params, theirs.state.params)
    records = lines(whole)
    assert all(r["failed_episodes"] == 0 for r in records)
    assert records[0]["env_steps"] > 0 and records[0]["grad_norm"] > 0
    assert records[-1]["kl/rollout_train"] > 1e-6 and 0 < records[-1]["importance_ess"] < 1
    # The next batch is sampled by what the learner was one update ago.
    (sampler,) = theirs.state.carry["sampler"]
    moved = [float(np.abs(a - b).max()) for a, b in zip(
        jax.tree.leaves(sampler), jax.tree.leaves(theirs.state.params), strict=True
    )]  # fmt: skip
    assert 0 < max(moved) < 0.01


@pytest.mark.long
def test_one_device_equals_eight():
    outs = {}
    for devices in (1, 8):
        config = tiny.host_config(mesh__data=devices)
        experiment = build(config)
        device_mesh = mesh.make_mesh(config, experiment)
        try:
            with mesh.use(device_mesh):
                programs = compile_programs(experiment, config, device_mesh)
                state = programs.init(jnp.arange(1, dtype=jnp.int32))
                state, totals = programs.train["rl"](state)
        finally:
            experiment.rollout.close()
        totals = {k: v for k, v in jax.device_get(totals).items() if not k.startswith("time/")}
        outs[devices] = (jax.device_get(state.params), totals)
    chex.assert_trees_all_close(outs[1], outs[8], rtol=2e-4, atol=2e-5)


def test_a_run_goes_on_without_the_episodes_that_fail(tmp_path):
    config = tiny.host_config(updates=2, host__retries=0, learner__minibatches=1)
    config.env = tiny.env_section(f"{tiny.TOYS}:Trouble", how="die", modulus=3)
    config.advantage = tiny.section(tiny.advantages.grpo)
    assert loop.run(config, tmp_path / "run", command="test")
    (record,) = lines(tmp_path / "run")
    assert 0 < record["failed_episodes"] < 16
    assert np.isfinite(list(record.values())).all() and record["rejected_updates"] == 0
    # The sampler is the learner, but for the rounding of other shapes.
    assert abs(record["kl/rollout_train"]) < 1e-6


def test_wrong_combinations_are_errors():
    for changes, message in (
        (
            {"env": tiny.env_section("Coin-v1")},
            "config.host.* is not used by anything: use an env.* in Python",
        ),
        ({"policy": tiny.section(tiny.policies.mlp)}, "language policies .* need a context"),
        ({"context": {"name": "none"}}, "language policies .* need a context"),
        ({"staleness": 5}, "less than config.max_rejected_updates=5"),
        ({"components__importance": {"cap": 0.0}}, "importance.cap=0.0: expected more than 0"),
        (
            {"components__importance": {"cap": 2.0, "level": "row"}},
            "importance.level='row': expected one of 'token', 'sequence'",
        ),
        ({"components__importance": {}}, "config.components.importance.cap is missing"),
        ({"warm_start__updates": 2}, "this rollout has no episodes of an expert; set"),
    ):
        with pytest.raises(ValueError, match=message):
            build(tiny.host_config(**changes))


SCRIPT = """
import pathlib, sys
sys.path.append(sys.argv[2])
import jax
jax.config.update("jax_num_cpu_devices", 8)
import tiny
from agentrl.run import loop
config = tiny.host_config(updates=400, host__retries=0, learner__minibatches=1)
config.env = tiny.env_section(tiny.TOYS + ":Trouble", how="nothing", marks=sys.argv[3])
config.advantage = tiny.section(tiny.advantages.grpo)
print("done" if loop.run(config, pathlib.Path(sys.argv[1]), command="test") else "stopped")
"""


@pytest.mark.long
def test_sigterm_saves_and_leaves_no_process(tmp_path):
    marks, workdir = tmp_path / "marks", tmp_path / "run"
    marks.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(workdir), str(SUPPORT), str(marks)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=dict(
            os.environ,
            JAX_DISABLE_MOST_OPTIMIZATIONS="true",
            JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0",
        ),
    )
    deadline = time.monotonic() + 120
    while not (workdir / "metrics.jsonl").exists() or not lines(workdir):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0 and out.strip() == "stopped"
    assert (workdir / "checkpoints").exists()
    # One to hear who plays, and the workers.
    numbers = [int(p.name) for p in marks.iterdir()]
    assert len(numbers) == 4
    for number in numbers:
        with pytest.raises(ProcessLookupError):
            os.kill(number, 0)
