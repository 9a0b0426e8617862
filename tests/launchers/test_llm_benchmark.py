"""The suite of decoders: the published sizes, and that all tasks run."""

import dataclasses
import sys

import jax
import pytest

from agentrl.policies import decoder
from launchers.benchmarks import llm, loading, timing


@pytest.mark.parametrize(
    ("name", "parameters"), [("qwen2.5-0.5b", 494_032_768), ("qwen2.5-1.5b", 1_543_714_304)]
)
def test_shapes_are_the_published_ones(name, parameters):
    """Parameters as the models' cards and index files state them."""
    shapes = jax.eval_shape(lambda: decoder.init(jax.random.key(0), llm.SHAPES[name]))
    assert sum(x.size for x in jax.tree.leaves(shapes)) == parameters


@pytest.mark.long
def test_all_tasks_run(monkeypatch):
    small = {"vocab_size": 64, "width": 16, "layers": 1, "heads": 2, "kv_heads": 1, "head_dim": 8}
    config = dataclasses.replace(llm.SHAPES["tiny"], hidden=32, **small)
    monkeypatch.setattr(llm, "SHAPES", {"small": config})
    monkeypatch.setattr(llm, "LARGE", llm.Sizes(2, 4, 3, 4))
    # 100 MiB in 8 files.
    large = dataclasses.replace(config, width=512, layers=8, hidden=1536)
    result = llm.run(
        timing.Plan(1, 0.001),
        with_peers=False,
        shapes=("small",),
        loaded=(large, [loading.Case(8, "float32", 2)]),
    )
    rows = {row["task"]: row for row in result["rows"]}
    assert list(rows) == ["read", "write", "learn", "learn adapters"]
    assert all(row["rate"] > 0 and row["memory_mib"] > 0 for row in rows.values())
    assert rows["write"]["bandwidth_percent"] > 0
    assert "gigaflops" in llm.report(result)
    if sys.platform.startswith("linux"):
        (load,) = result["loads"]
        assert load["arrays_mib"] == pytest.approx(load["files_mib"], rel=0.01) and (
            load["arrays_mib"] > 70
        )
        # One tensor, a block of a file, and what the allocator keeps: not the files once more.
        assert load["above_mib"] < 60
