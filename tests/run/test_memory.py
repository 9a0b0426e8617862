"""Memory of programs before they run."""

import jax
import jax.numpy as jnp
import pytest
import tiny

from agentrl.run import checkpoint, loop, memory, metrics
from agentrl.run.memory import Need
from agentrl.run.restored import RunError, load

GIB = 2**30


def needing(fixed, per_row, tried):
    def needed(size):
        tried.append(size)
        return Need(state=fixed, results=0, between=per_row * size)

    return needed


def test_the_largest_divisor_that_fits_is_found_in_few_trials():
    tried = []
    assert memory.largest(48, 1, needing(100, 10, tried), allowed=260) == 16
    # 48 rows need 580: 16 is the first divisor below 48 * 160 / 480.
    assert tried == [48, 16]
    assert memory.largest(48, 1, needing(100, 10, []), allowed=1000) == 48


def test_devices_share_a_microbatch():
    # Of 24, 12, 8 and so on, multiples of 4.
    assert memory.largest(24, 4, needing(0, 10, []), allowed=150) == 12
    assert memory.largest(24, 8, needing(0, 10, []), allowed=150) == 8


def test_a_run_that_never_fits_is_an_error_with_its_parts():
    with pytest.raises(RunError, match=r"microbatch=1 needs 3.0 GiB \(state 2.0, .*between 1.0\)"):
        memory.largest(8, 1, needing(2 * GIB, GIB, []), allowed=2 * GIB)


def config_of(**changes):
    return tiny.groups_config(
        updates=2, log_every=1, **{"learner__minibatches": 1, "warm_start__updates": 0} | changes
    )


def test_a_program_that_does_not_fit_ends_the_run_before_it_begins(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "limit", lambda: 1000)
    with pytest.raises(RunError, match=r"phase 'rl' needs .* 0.0 GiB are there; set config.*auto"):
        loop.run(config_of(), tmp_path / "run", command="test")
    monkeypatch.undo()
    # Nothing was trained there, so another config may take the place.
    assert loop.run(config_of(seed=3), tmp_path / "run", command="test")
    # Checkpoints alone are worth keeping, too.
    (tmp_path / "run" / "metrics.jsonl").unlink()
    with pytest.raises(RunError, match="holds a run of another config"):
        loop.run(config_of(seed=4), tmp_path / "run", command="test")


def test_an_evaluation_that_does_not_fit_ends_the_run_before_it_begins(tmp_path, monkeypatch):
    config = config_of(evaluation__every=1, evaluation__episodes=4)
    assert loop.run(config, tmp_path / "run", command="test")
    allowed = 2**24
    monkeypatch.setattr(memory, "limit", lambda: allowed)
    config = config_of(evaluation__every=1, evaluation__episodes=allowed // 64)
    with pytest.raises(RunError, match=r"evaluation needs .*config.evaluation.at_once to"):
        loop.run(config, tmp_path / "more", command="test")


def test_bytes_of_a_state_are_those_of_its_parts_on_a_device():
    mesh = jax.make_mesh((2,), ("data",), devices=jax.devices()[:2])
    shared = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    shapes = [
        jax.ShapeDtypeStruct((6, 5), jnp.float32, sharding=shared),
        jax.ShapeDtypeStruct((3,), jnp.uint8, sharding=whole),
    ]
    assert memory.size(shapes) == 3 * 5 * 4 + 3


def test_an_allocation_that_fails_is_one_line():
    failed = jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 30 bytes.\nx")
    with (
        pytest.raises(RunError, match=r"allocating 30 bytes.*rl 2.0 GiB.*set config.learner"),
        memory.told({"rl": Need(GIB, 0, GIB)}),
    ):
        raise failed
    with pytest.raises(jax.errors.JaxRuntimeError), memory.told({}):
        raise jax.errors.JaxRuntimeError("INTERNAL: something else")


def test_auto_is_a_number_once_the_run_has_begun(tmp_path):
    workdir = tmp_path / "run"
    assert loop.run(config_of(learner__microbatch="auto"), workdir, command="test")
    rows = load(workdir).experiment.rollout.num_rows
    assert load(workdir).config.learner.microbatch == rows
    # The same command resumes, with the same number.
    longer = config_of(learner__microbatch="auto").unlock()
    longer.updates = 4
    assert loop.run(longer, workdir, command="test")
    assert checkpoint.steps(workdir / "checkpoints")[-1] == 4
    assert load(workdir).config.learner.microbatch == rows
    assert metrics.read(workdir / "metrics.jsonl")[-1]["update"] == 4


def test_the_limit_of_this_machine_is_known():
    assert memory.limit() is None or memory.limit() > GIB / 8
