"""The suite of decoders: the published sizes, and that all tasks run."""

import dataclasses

import jax
import pytest

from agentrl.policies import decoder
from launchers.benchmarks import llm, timing


@pytest.mark.parametrize(
    ("name", "parameters"), [("qwen2.5-0.5b", 494_032_768), ("qwen2.5-1.5b", 1_543_714_304)]
)
def test_shapes_are_the_published_ones(name, parameters):
    """Parameters as the models' cards and index files state them."""
    shapes = jax.eval_shape(lambda: decoder.init(jax.random.key(0), llm.SHAPES[name]))
    assert sum(x.size for x in jax.tree.leaves(shapes)) == parameters


def test_all_tasks_run(monkeypatch):
    small = {"vocab_size": 64, "width": 16, "layers": 1, "heads": 2, "kv_heads": 1, "head_dim": 8}
    config = dataclasses.replace(llm.SHAPES["tiny"], hidden=32, **small)
    monkeypatch.setattr(llm, "SHAPES", {"small": config})
    monkeypatch.setattr(llm, "LARGE", llm.Sizes(2, 4, 3, 4))
    result = llm.run(timing.Plan(1, 0.001), with_peers=False, shapes=("small",))
    rows = {row["task"]: row for row in result["rows"]}
    assert list(rows) == ["read", "write", "learn", "learn adapters"]
    assert all(row["rate"] > 0 and row["memory_mib"] > 0 for row in rows.values())
    assert rows["write"]["bandwidth_percent"] > 0
    assert "gigaflops" in llm.report(result)
