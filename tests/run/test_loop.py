"""Runs: resumed equals uninterrupted, killed at any time, devices, compilations, the guard."""

import fcntl
import functools
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import types

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

from agentrl import advantages
from agentrl.config import section
from agentrl.config.build import build
from agentrl.learner.components import guard
from agentrl.policies import chunks
from agentrl.run import checkpoint, evaluations, loop, mesh, metrics, provenance, restored
from agentrl.run.files import read_json
from agentrl.run.status import status
from agentrl.run.workdir import claimed

# Where a process of its own finds `tiny`.
SUPPORT = pathlib.Path(tiny.__file__).parent


CONFIGS = {
    "groups": tiny.groups_config,
    "matches": tiny.matches_config,
    "segments": tiny.segments_config,
    "talk": tiny.talk_config,
}


def lines(workdir):
    """Metrics lines without what is measured of the machine."""
    return [
        {k: v for k, v in line.items() if k not in metrics.MACHINE_METRICS}
        for line in metrics.read(workdir / "metrics.jsonl")
    ]


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    """The directory of a config's run of two seeds, which is trained when it is first asked for."""

    @functools.cache
    def trained(name):
        workdir = tmp_path_factory.mktemp(name) / "run"
        assert loop.run(CONFIGS[name](num_seeds=2), workdir, command="test")
        return workdir

    return trained


@pytest.fixture(scope="module", params=CONFIGS)
def uninterrupted(request, whole_run):
    return request.param, whole_run(request.param)


def test_run_directory(uninterrupted):
    name, workdir = uninterrupted
    made = {p.name for p in workdir.iterdir()}
    files = {"config.json", "provenance.json", "process.json", "metrics.jsonl"}
    assert made == {*files, "checkpoints", "tb"}
    records = lines(workdir)
    assert [(r["update"], r["seed"]) for r in records] == [
        (u, s) for u in (2, 4, 6, 8) for s in (0, 1)
    ]
    assert all(np.isfinite(v) for r in records for v in r.values())
    assert records[-1]["env_steps"] > 0 and records[0] != records[1]
    provenance = json.loads((workdir / "provenance.json").read_text())
    assert provenance["command"] == "test" and provenance["packages"]["jax"]


def test_resumed_equals_uninterrupted(uninterrupted, tmp_path):
    """Also where lines were written after the checkpoint, the last of them not to its end."""
    name, whole = uninterrupted
    # One of them is made longer, the others are stopped.
    first = CONFIGS[name](num_seeds=2, **({"updates": 4} if name == "groups" else {}))
    assert loop.run(first, tmp_path / "run", command="test", stop_after=4)
    path = tmp_path / "run" / "metrics.jsonl"
    path.write_text(path.read_text() + '{"seed": 0, "update": 6, "env_steps": 1}\n{"seed": 1, "up')
    assert loop.run(CONFIGS[name](num_seeds=2), tmp_path / "run", command="test")
    assert lines(tmp_path / "run") == lines(whole)
    ours, theirs = restored.load(tmp_path / "run"), restored.load(whole)
    for a, b in zip(jax.tree.leaves(ours.state), jax.tree.leaves(theirs.state), strict=True):
        if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        np.testing.assert_array_equal(a, b)


def test_finished_run_stays_as_it_is(uninterrupted, monkeypatch):
    """Nothing is compiled for it."""
    name, workdir = uninterrupted
    monkeypatch.delattr(loop, "compile_programs")
    before = (workdir / "metrics.jsonl").read_text()
    assert loop.run(CONFIGS[name](num_seeds=2), workdir, command="test")
    assert (workdir / "metrics.jsonl").read_text() == before


def test_a_run_of_sft_alone_can_be_made_longer(tmp_path):
    def train(workdir, updates, sft):
        config = tiny.talk_config(updates=updates, warm_start__updates=sft, num_seeds=1)
        return loop.run(config, workdir, command="test")

    assert train(tmp_path / "longer", 2, 2) and train(tmp_path / "longer", 4, 4)
    assert train(tmp_path / "whole", 4, 4)
    assert len(lines(tmp_path / "whole")) == 2
    assert lines(tmp_path / "longer") == lines(tmp_path / "whole")
    # Its updates after SFT would have been others.
    with pytest.raises(loop.RunError, match="warm_start.updates was 4 and is now 6"):
        train(tmp_path / "longer", 8, 6)


def test_a_directory_belongs_to_one_process_at_a_time(uninterrupted):
    name, workdir = uninterrupted
    held = os.open(workdir, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    before = (workdir / "metrics.jsonl").read_bytes()
    try:
        with pytest.raises(loop.RunError, match="another process is training"):
            loop.run(CONFIGS[name](num_seeds=2), workdir, command="test")
    finally:
        os.close(held)
    assert (workdir / "metrics.jsonl").read_bytes() == before


def counted(config):
    """(programs, their mesh, the names of their phases as often as they were traced)."""
    experiment, traced = build(config), []

    def counts(phase, train):
        def told(state):
            traced.append(phase.name)
            return train(state)

        return phase, told

    device_mesh = mesh.make_mesh(config, experiment)
    experiment = experiment._replace(phases=tuple(counts(*phase) for phase in experiment.phases))
    with mesh.use(device_mesh):
        return loop.compile_programs(experiment, config, device_mesh), device_mesh, traced


@pytest.fixture(scope="module")
def alone():
    """`counted` of the second seed on one device; a run of that config shares the programs."""
    return functools.cache(lambda name: counted(CONFIGS[name](seed=1)))


def test_seeds_side_by_side_equal_seeds_alone(uninterrupted, alone, tmp_path):
    name, workdir = uninterrupted
    _, _, traced = alone(name)
    assert loop.run(CONFIGS[name](seed=1), tmp_path / "run", command="test")
    assert sorted(traced) == (["rl", "warm_start"] if name == "talk" else ["rl"])
    own = lines(tmp_path / "run")
    beside = [r for r in lines(workdir) if r["seed"] == 1]
    for a, b in zip(own, beside, strict=True):
        assert a.keys() == b.keys()
        for key in a:
            np.testing.assert_allclose(a[key], b[key], rtol=1e-4, atol=1e-5, err_msg=key)


# Two of each, for what has a decoder, in passes of two lengths.
MESHES = {
    "talk": {
        "mesh__data": 2,
        "mesh__fsdp": 2,
        "mesh__tensor": 2,
        "policy__kv_heads": 2,
        "learner__microbatch": 8,
        "learner__lengths": 2,
        "warm_start__updates": 0,
    }
}


def on_eight(name):
    return CONFIGS[name](seed=1, **MESHES.get(name, {"mesh__data": 8}))


def on_one(name, alone):
    """As `on_eight` on one device."""
    if name not in MESHES:
        return alone(name)
    changes = {k: 1 if k.startswith("mesh") else v for k, v in MESHES[name].items()}
    return counted(CONFIGS[name](seed=1, **changes))


def three_calls(programs, device_mesh):
    """The state after three calls of a program, and what each of them told."""
    collected = []
    with mesh.use(device_mesh):
        state = programs.init(programs.seeds)
        for _ in range(3):
            state, totals = programs.train["rl"](state)
            collected.append(jax.device_get(totals))
    return state, collected


@pytest.mark.parametrize("name", CONFIGS)
def test_one_device_equals_eight(name, alone, tmp_path, monkeypatch):
    """Every program is traced once, and a checkpoint of eight devices is read by one."""
    # Logits of replies alone, whatever the size.
    monkeypatch.setattr(chunks, "DIRECT", 0)
    programs, device_mesh, traced = on_one(name, alone)
    traced.clear()  # a run that shares them compiles ahead, for shapes alone
    state, collected = three_calls(programs, device_mesh)
    assert programs.train["rl"]._cache_size() == 1 and traced in ([], ["rl"])
    one, shapes = (jax.device_get(state.params), collected), programs.shapes
    programs, device_mesh, traced = counted(on_eight(name))
    state, collected = three_calls(programs, device_mesh)
    assert traced == ["rl"]
    if name == "segments":
        assert len(state.rollout.start.sharding.device_set) == 8
    if name == "talk":
        moments = state.opt_state[1][0].mu
        for tree in (state.params, state.carry["reference"], moments):
            kernel = tree["layers"]["mlp"]["up_proj"]["kernel"]
            assert kernel.shape == (1, 1, 16, 32)
            assert {s.data.shape for s in kernel.addressable_shards} == {(1, 1, 8, 16)}
    with mesh.use(device_mesh):
        checkpoint.save(tmp_path, 3, state, 1)
    eight = (jax.device_get(state.params), collected)
    chex.assert_trees_all_close(one, eight, rtol=2e-4, atol=2e-5)
    _, moved = checkpoint.restore(tmp_path, shapes, None)
    assert all(len(x.sharding.device_set) == 1 for x in jax.tree.leaves(moved))
    chex.assert_trees_all_equal(jax.device_get(moved.params), eight[0])


def ready_for(config):
    """Its compiled programs, which a run of the same config finds compiled."""
    experiment = build(config)
    device_mesh = mesh.make_mesh(config, experiment)
    with mesh.use(device_mesh):
        programs = loop.compile_programs(experiment, config, device_mesh)
        return loop.prepare(config, experiment, programs, device_mesh)


def test_non_finite_updates_are_skipped_then_stop_the_run(tmp_path):
    # A learning rate that overflows float32: the first update's gradients are finite, its
    # parameters are not.
    config = tiny.groups_config(optimizer__learning_rate=1e38, optimizer__max_grad_norm=1e38)
    config.max_rejected_updates = 2
    ready = ready_for(config)
    before = ready.programs.init(ready.programs.seeds)
    after, _ = ready.train["rl"](jax.tree.map(jnp.copy, before))
    if int(guard.rejected_in_a_row(after.carry)[0]):
        chex.assert_trees_all_equal(after.params, before.params)
        chex.assert_trees_all_equal(after.opt_state, before.opt_state)
    with pytest.raises(loop.NonFiniteError, match="updates in a row were not finite") as error:
        loop.run(config, tmp_path / "run", command="test")
    saved = list((tmp_path / "run" / "rejected").glob("*.npz"))
    assert len(saved) == 1 and str(saved[0]) in str(error.value)
    batch = np.load(saved[0])
    assert any("reward" in key for key in batch.files)
    assert any("params" in key for key in batch.files)


def test_non_finite_warm_start_stops_and_names_its_learning_rate(tmp_path):
    config = tiny.talk_config(warm_start__learning_rate=1e38, optimizer__max_grad_norm=1e38)
    config.max_rejected_updates, config.updates = 2, config.warm_start.updates
    ready = ready_for(config)
    after, totals = ready.train["warm_start"](ready.programs.init(ready.programs.seeds))
    assert int(after.carry["guard"].total[0]) == int(totals["rejected_updates"][0, 0]) > 0
    assert all(np.isfinite(x).all() for x in jax.tree.leaves((after.params, totals)))
    with pytest.raises(loop.NonFiniteError, match="lower config.warm_start.learning_rate"):
        loop.run(config, tmp_path / "run", command="test")
    assert not (tmp_path / "run" / "rejected").exists()


def test_a_run_starts_from_the_parameters_of_another(whole_run, tmp_path):
    """Of text, too, in test_adapters.py."""
    taught = whole_run("groups")
    # A learning rate of zero: what the run began with is what it ends with.
    changes = {"optimizer__learning_rate": 0.0, "objective__kl__weight": 0.01}
    still = tiny.groups_config(seed=1, updates=2, init_from=str(taught), **changes)
    assert loop.run(still, tmp_path / "still", command="test")
    before, after = restored.load(taught), restored.load(tmp_path / "still")
    for a, b in zip(
        jax.tree.leaves(before.state.params), jax.tree.leaves(after.state.params), strict=True
    ):
        np.testing.assert_array_equal(a[1:], b)
    # The reference is what it began with, not what was drawn; the run says which parameters it was.
    chex.assert_trees_all_equal(after.state.carry["reference"], after.state.params)
    began = read_json(tmp_path / "still/provenance.json")["start"]
    assert began == provenance.checksum(after.state.params)
    assert read_json(taught / "provenance.json")["start"] is None
    # Said again, too, by a command that finds the run finished or goes on with it.
    goes_on = tiny.groups_config(seed=1, updates=4, init_from=str(taught), **changes)
    assert loop.run(goes_on, tmp_path / "still", command="again")
    assert read_json(tmp_path / "still/provenance.json")["start"] == began


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"seed": 1, "num_seeds": 2}, "has seeds 0 to 1, this config 1 to 2"),
        ({"policy__width": 8}, "holds another policy"),
        ({"policy__codec": "byte"}, "holds another policy|reads other words"),
        ({"init_from": "runs/nothing"}, "holds no run"),
    ],
)
def test_a_run_that_does_not_fit_is_not_begun_from(wrong, message, whole_run, tmp_path):
    changes = {"init_from": str(whole_run("talk")), "warm_start__updates": 0}
    config = tiny.talk_config(**{"num_seeds": 2, "updates": 2, **changes, **wrong})
    with pytest.raises(loop.RunError, match=message):
        loop.run(config, tmp_path / "wrong", command="test")
    assert not (tmp_path / "wrong").exists()


def drawn(config, key=0):
    """A run whose parameters are those of its initialisation, as `restored.load` gives it."""
    experiment = build(config)
    params = jax.tree.map(lambda x: x[None], experiment.policy.init(jax.random.key(key)))
    return restored.Run(config, experiment, 1, types.SimpleNamespace(params=params))


def test_a_critic_begins_on_the_parameters_of_a_run_without_one(monkeypatch):
    run = drawn(tiny.talk_config(num_seeds=1))
    monkeypatch.setattr(restored, "load", lambda path: run)
    config = tiny.talk_config(warm_start__updates=0, init_from="runs/sft", policy__critic="shared")
    config.advantage, config.objective.value.weight = (
        section(advantages.gae, gamma=0.9, lam=0.9),
        0.5,
    )
    found = restored.beginning(config, build(config))
    assert "value_head" not in found
    chex.assert_trees_all_equal(found, run.state.params)
    # A head that is not wanted is another policy.
    config = tiny.talk_config(warm_start__updates=0, init_from="runs/ppo")
    run.state.params["value_head"] = {"kernel": jnp.zeros((1, 16, 1)), "bias": jnp.zeros((1, 1))}
    with pytest.raises(loop.RunError, match="another policy"):
        restored.beginning(config, build(config))


def test_a_run_starts_from_the_mean_of_others(monkeypatch):
    runs = {}
    for name, seed in (("one", 0), ("other", 0), ("third", 5)):
        runs[f"runs/{name}"] = drawn(tiny.talk_config(seed=seed, num_seeds=1), len(runs))
    monkeypatch.setattr(restored, "load", lambda path: runs[str(path)])
    mixed = "0.25*runs/one,0.75*runs/other"
    config = tiny.talk_config(updates=2, warm_start__updates=0, init_from=mixed)
    found = restored.beginning(config, build(config))
    one, other = (runs[f"runs/{name}"].state.params for name in ("one", "other"))
    expected = jax.tree.map(lambda a, b: 0.25 * a + 0.75 * b, one, other)
    chex.assert_trees_all_close(found, expected, atol=1e-7)
    chex.assert_trees_all_equal_dtypes(found, one)
    for wrong, message in (
        (mixed.replace("0.25", "0.5"), "the weights add up to 1.25; expected 1"),
        (mixed.replace("0.25", "some"), "expected WEIGHT.DIR with a number"),
        ("0.5*runs/one,0.5*runs/third", "has seeds 5 to 5, this config 0 to 0"),
    ):
        config.init_from = wrong
        with pytest.raises(restored.RunError, match=message):
            restored.beginning(config, build(config))


def test_what_an_evaluation_that_does_not_end_leaves_is_completed(tmp_path, monkeypatch):
    """The update's checkpoint is there, and the resumed run evaluates it."""
    config = tiny.groups_config(
        updates=4, checkpoint__every=2, evaluation__every=2, evaluation__episodes=4
    )
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert loop.run(config, whole, command="test")

    def out_of_memory(*_):
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(loop, "_evaluate", out_of_memory)
        with pytest.raises(MemoryError):
            loop.run(config, broken, command="test")
    assert checkpoint.steps(broken / "checkpoints") == [2]
    assert loop.run(config, broken, command="test")
    assert lines(broken) == lines(whole)
    assert "evaluation/episode_return" in lines(broken)[0]
    assert {p.name for p in broken.iterdir()} == {p.name for p in whole.iterdir()}
    for path in (whole / "eval").iterdir():
        assert path.read_text() == (broken / "eval" / path.name).read_text()
    # Metrics that were written before the process died are not written twice.
    records = [line | {"update": 4} for line in lines(whole)[-1:]]
    machine = {"updates_per_second": 1.0}
    evaluations.keep(broken, evaluations.Pending(4, records, machine))
    assert loop.run(config, broken, command="test")
    assert lines(broken) == lines(whole)


@pytest.mark.parametrize("arrives", [2, 4], ids=["in the middle", "in the last program"])
def test_a_signal_where_an_evaluation_is_due_loses_no_evaluation(arrives, tmp_path, monkeypatch):
    config = tiny.groups_config(updates=4, evaluation__every=2, evaluation__episodes=4)
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    assert loop.run(config, whole, command="test")
    records = loop._records

    def told(config, experiment, update, *rest):
        if update == arrives:
            signal.raise_signal(signal.SIGTERM)
        return records(config, experiment, update, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(loop, "_records", told)
        assert not loop.run(config, stopped, command="test")
    assert checkpoint.steps(stopped / "checkpoints") == [arrives]
    assert not evaluations.finished(stopped, 4)
    assert loop.run(config, stopped, command="test") and evaluations.finished(stopped, 4)
    assert lines(stopped) == lines(whole)
    assert {p.name for p in stopped.iterdir()} == {p.name for p in whole.iterdir()}
    for path in (whole / "eval").iterdir():
        assert path.read_text() == (stopped / "eval" / path.name).read_text()


def test_a_budget_of_turns_ends_a_run_in_all_its_seeds(tmp_path):
    """With its last evaluation and checkpoint, and a larger budget goes on where it ended."""
    config = tiny.groups_config(updates=8, num_seeds=2, evaluation__every=8, evaluation__episodes=4)
    assert loop.run(config, tmp_path / "whole", command="test")
    whole = lines(tmp_path / "whole")
    steps = [min(l["env_steps"] for l in whole if l["update"] == u) for u in (2, 4, 6, 8)]
    assert steps == sorted(steps)
    config.env_steps = steps[0] + 1
    short = tmp_path / "short"
    for _ in range(2):  # the second time there is nothing to do
        assert loop.run(config, short, command="test") and evaluations.finished(short, 8)
        assert checkpoint.steps(short / "checkpoints") == [4] and status(short).state == "done"
    evaluated = [line for line in lines(short) if "evaluation/episode_return" in line]
    assert {line["update"] for line in lines(short)} == {2, 4}
    assert [line["update"] for line in evaluated] == [4, 4]
    config.env_steps = steps[3] + 1
    assert loop.run(config, short, command="test")
    learnt = [{k: v for k, v in x.items() if "evaluation" not in k} for x in whole]
    went = [{k: v for k, v in x.items() if "evaluation" not in k} for x in lines(short)]
    assert went == learnt
    config.env_steps = -1
    with pytest.raises(ValueError, match="config.env_steps"):
        loop.run(config, tmp_path / "x", command="test")


def test_a_run_that_was_killed_before_its_first_file_is_begun_again(tmp_path):
    (tmp_path / "config.tmp").write_text('{"upd')
    with claimed(tmp_path, tiny.groups_config()):
        assert {path.name for path in tmp_path.iterdir()} == {"config.json", "process.json"}


# A process of its own, so that it can be killed.
SCRIPT = """
import pathlib, sys, time
sys.path.append(sys.argv[2])
import jax
jax.config.update("jax_num_cpu_devices", 8)
import tiny
from agentrl.run import checkpoint, loop
config = tiny.segments_config(num_seeds=2, checkpoint__every=2, updates=400)
mode = sys.argv[3]
if mode == "kill-in-save":
    # Stop for the killer where Orbax has written the data and not yet renamed the directory.
    from orbax.checkpoint._src.path import atomicity
    import orbax.checkpoint as ocp
    saves = []
    original = checkpoint.save
    def save(directory, step, state, keep):
        saves.append(step)
        if len(saves) == 3:
            import os
            real = os.rename
            def hang(*a, **k):
                print("saving", flush=True)
                time.sleep(60)
            import pathlib as p
            p.Path.rename = hang
            os.rename = hang
            from etils import epath
            type(epath.Path(str(directory))).rename = hang
        original(directory, step, state, keep)
    checkpoint.save = save
print("started", flush=True)
done = loop.run(config, pathlib.Path(sys.argv[1]), command="test")
print("done" if done else "stopped", flush=True)
"""


def start(workdir, mode):
    environment = dict(
        os.environ,
        PYTHONUNBUFFERED="1",
        JAX_DISABLE_MOST_OPTIMIZATIONS="true",
        JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0",
    )
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(workdir), str(SUPPORT), mode],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
        cwd=workdir.parent,
    )


def wait_for(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def long_run(tmp_path_factory):
    """20 updates without a break."""
    workdir = tmp_path_factory.mktemp("long") / "run"
    finish(workdir)
    return workdir


def finish(workdir):
    """Runs or resumes to update 20, whatever was asked of the killed process."""
    config = tiny.segments_config(num_seeds=2, checkpoint__every=2, updates=20)
    assert loop.run(config, workdir, command="test")


def test_sigterm_saves_and_exits_cleanly_and_resumes_bitwise(long_run, tmp_path):
    workdir = tmp_path / "run"
    process = start(workdir, "sigterm")
    wait_for(lambda: len(checkpoint.steps(workdir / "checkpoints")) >= 1)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0 and out.split()[-1] == "stopped"
    saved = checkpoint.steps(workdir / "checkpoints")[-1]
    assert lines(workdir)[-1]["update"] == saved
    if saved < 20:
        finish(workdir)
    whole = [r for r in lines(long_run) if r["update"] <= 20]
    assert [r for r in lines(workdir) if r["update"] <= 20] == whole[: len(lines(workdir))]


def test_sigkill_in_the_middle_of_a_save_loses_nothing(long_run, tmp_path):
    workdir = tmp_path / "run"
    process = start(workdir, "kill-in-save")
    try:
        while process.stdout.readline().strip() != "saving":
            assert process.poll() is None, "the process ended before its third save"
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    directory = workdir / "checkpoints"
    unfinished = [p for p in directory.iterdir() if not p.name.isdigit()]
    assert unfinished, "the save was not cut short"
    assert checkpoint.steps(directory) == [2, 4]
    finish(workdir)
    assert lines(workdir) == lines(long_run)
