import dataclasses

import jax
import numpy as np
import pytest

from agentrl.policies import decoder
from agentrl.policies.decoder import DecoderConfig
from launchers.benchmarks import generation, timing

TINY = timing.Plan(rounds=2, sample_seconds=0.0)
SMALL = DecoderConfig(vocab_size=11, width=8, layers=2, heads=2, kv_heads=2, head_dim=4, hidden=12)
GROUPED = dataclasses.replace(SMALL, kv_heads=1)


def test_weights_per_token_are_the_matrices_of_the_parameters():
    params = decoder.init(jax.random.key(0), GROUPED)
    leaves = jax.tree_util.tree_leaves_with_path(params)
    # All but the norms, which have a vector per layer.
    matrices = sum(x.size for path, x in leaves if "norm" not in jax.tree_util.keystr(path))
    # q 8x8, k and v 8x4, o 8x8, MLP 3 x 8x12, logits 8x11.
    assert generation.weights_per_token(GROUPED) == 2 * (64 + 2 * 32 + 64 + 288) + 88 == matrices


def test_programs_are_measured_against_their_own_products(monkeypatch):
    monkeypatch.setattr(generation, "CONFIG", SMALL)
    result = generation.run(TINY, with_peers=False, batches=(8,), written=3)
    rows = {row["program"]: row for row in result["rows"]}
    # The tests run on eight simulated devices.
    one = ", one head of keys"
    assert list(rows) == [
        f"{program}{kind}{devices}"
        for kind in ("", one)
        for program, devices in (
            ("agentrl", ""),
            ("agentrl", ", 8 devices"),
            ("matrix products", ""),
        )
    ]
    assert {row["work"] for row in rows.values()} == {8 * 3}
    for kind, config in (("", SMALL), (one, GROUPED)):
        ours, products = rows["agentrl" + kind], rows["matrix products" + kind]
        share = 100 * ours["rate"] / products["rate"]
        np.testing.assert_allclose(ours["percent_of_products"], share)
        flops = 2 * generation.weights_per_token(config)
        np.testing.assert_allclose(ours["gigaflops"], ours["rate"] * flops / 1e9)
    products = rows["matrix products"]
    flops = 2 * generation.weights_per_token(SMALL)
    np.testing.assert_allclose(result["gigaflops"][8], products["rate"] * flops / 1e9)
    assert "after 16" in generation.report(result)


def test_transformers_writes_as_many_tokens(monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr(generation, "CONFIG", SMALL)
    ready = generation.transformers(4, 3)
    ready.call()
    assert ready.work == 12 and ready.facts()["threads"] >= 1
