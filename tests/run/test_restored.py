"""Directories that cannot be read say so before anything compiles."""

import json
import pathlib
import types

import chex
import jax
import jax.numpy as jnp
import pytest
import tiny

from agentrl.run import checkpoint, loop, restored
from configs.credit import coin


def _directory(path, change, provenance):
    config = coin.get_config("gigpo").to_dict()
    change(config)
    (path / "config.json").write_text(json.dumps(config))
    if provenance is not None:
        (path / "provenance.json").write_text(provenance)
    return path


@pytest.mark.parametrize(
    ("provenance", "remedy"),
    [
        ('{"git": {"commit": "0123abc"}}', "wrote it: git checkout 0123abc"),
        ('{"git": null}', "with the version that wrote it$"),
        ("{", "with the version that wrote it$"),
        (None, "with the version that wrote it$"),
    ],
)
def test_a_run_of_another_version_names_its_commit(tmp_path, provenance, remedy):
    directory = _directory(tmp_path, lambda config: config.pop("population"), provenance)
    with pytest.raises(restored.RunError, match=f"config.population is missing.*{remedy}"):
        restored.load(directory)


def test_a_directory_without_a_run(tmp_path):
    with pytest.raises(restored.RunError, match="holds no run"):
        restored.load(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(restored.RunError, match="config.json is not readable JSON"):
        restored.load(tmp_path)


def test_readers_that_are_given_up_say_nothing():
    def forgotten(name):
        code = types.SimpleNamespace(co_filename=name)
        return types.SimpleNamespace(object=types.SimpleNamespace(cr_code=code))

    shown = []
    ours, theirs = forgotten("agentrl/run/loop.py"), forgotten("x/orbax/serialization.py")
    no_coroutine = types.SimpleNamespace(object=None)
    for unraisable in (ours, theirs, no_coroutine):
        checkpoint._but_of_readers(shown.append, unraisable)
    assert shown == [ours, no_coroutine]
    closed, other = RuntimeError("Event loop is closed"), RuntimeError("something else")
    for error in (closed, other):
        checkpoint._but_of_late_readers(lambda *a: shown.append(a[1]), RuntimeError, error, None)
    assert shown[2:] == [other]


def test_checkpoints_with_an_entry_per_layer_name_the_commit_that_reads_them(tmp_path):
    layer = {"mlp": {"up_proj": {"kernel": jnp.zeros((2, 3))}}}
    before = {"params": {"policy": {"layers": {"0": layer, "1": layer}}}}
    checkpoint.save(tmp_path / "before", 1, before, 1)
    with pytest.raises(checkpoint.CheckpointError, match="git checkout [0-9a-f]{7}"):
        checkpoint.restore(tmp_path / "before", before)
    stacked = {"params": {"layers": layer}}
    checkpoint.save(tmp_path / "now", 1, stacked, 1)
    checkpoint.check(tmp_path / "now")
    assert checkpoint.restore(tmp_path / "now", stacked)[0] == 1


def test_a_cell_of_a_sweep_is_a_run_to_begin_from(tmp_path, monkeypatch):
    """Its directory has a sign in its name that otherwise is between a part and its run."""
    cell = tmp_path / "coin__rate=1e-3"
    cell.mkdir()
    (cell / "config.json").touch()
    monkeypatch.setattr(restored, "parameters", lambda path, *_: ("of", path))
    monkeypatch.setattr(restored, "parts", lambda config, _: ("parts", config.init_from))
    for text, found in (
        (str(cell), ("of", cell)),
        (f"{cell}2", ("of", pathlib.Path(f"{cell}2"))),
        (f"planner={cell}", ("parts", f"planner={cell}")),
    ):
        assert restored.beginning(types.SimpleNamespace(init_from=text), None) == found
    monkeypatch.chdir(tmp_path)
    config = types.SimpleNamespace(init_from=cell.name)
    assert restored.beginning(config, None) == ("of", pathlib.Path(cell.name))


def test_what_a_run_began_from(tmp_path):
    def ran(name, **changes):
        config = tiny.talk_config(updates=2, warm_start__updates=0, **changes)
        loop.run(config, tmp_path / name, command="train")
        return restored.load(tmp_path / name)

    # Without a learning rate the parameters stay what they were, of two seeds.
    still = ran("still", num_seeds=2, optimizer__learning_rate=0.0)
    chex.assert_trees_all_equal(restored.initial(still), still.state.params)
    # A run that begins from another one has that one's parameters, not those drawn for its seed.
    moved = ran("moved", num_seeds=2, init_from=str(tmp_path / "still"))
    chex.assert_trees_all_equal(restored.initial(moved), still.state.params)
    later = ran("later", seed=1, init_from=str(tmp_path / "moved"))
    of_seed = jax.tree.map(lambda x: x[1:], moved.state.params)
    chex.assert_trees_all_equal(restored.initial(later), of_seed)
    with pytest.raises(AssertionError):
        chex.assert_trees_all_equal(of_seed, jax.tree.map(lambda x: x[1:], still.state.params))
