"""STARE's gate, and what its reweighting needs; a run with it is in test_together.py."""

import jax
import numpy as np
import pytest
from by_hand import context
from experiments import lake

from agentrl import advantages
from agentrl.config import section
from agentrl.config.build import build
from agentrl.methods.stare import stare_weights


def test_a_shut_gate_is_no_reweighting():
    """An entropy is never below 0. Advantages are of rows, those of GRPO of streams."""
    config = lake()
    config.components.stare_weights = section(stare_weights, target=0.0, gain=3.0)
    config.reweighting.stare = section(advantages.stare)
    experiment = build(config)

    @jax.jit
    def first(state):
        """The first batch, its advantages by GRPO, and what the component tells of it."""
        streams, rows, credit, *_ = experiment.batches(state)["rollout"]
        given = context(np.float32([3, 1]), state.params)
        _, told = experiment.components["stare_weights"].annotate(given, streams, rows)
        return rows, credit, advantages.grpo(streams.reward, streams.mask, streams.group), told

    rows, credit, plain, told = jax.device_get(first(jax.jit(experiment.init)(0)))
    assert told["stare_gate"].tolist() == [0, 1]
    expected = plain[rows.stream[:, None], np.maximum(rows.turn, 0)]
    there = rows.loss_mask
    assert np.abs(expected[there]).max() > 0.5
    np.testing.assert_allclose(credit.advantage.values[there], expected[there], atol=1e-6)


def test_the_reweighting_alone_says_what_it_needs():
    config = lake()
    config.reweighting.stare = section(advantages.stare)
    with pytest.raises(ValueError, match="config.reweighting.stare needs 'surprising_gain'"):
        build(config)
