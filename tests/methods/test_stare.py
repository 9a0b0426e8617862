"""STARE in training: the gate, and the weights that its component gives."""

import numpy as np
import pytest
from experiments import distance, lake, train, train_and_resume

from agentrl import advantages
from agentrl.config import section
from agentrl.config.build import build
from agentrl.methods.stare import stare_weights


def config_of(**options):
    config = lake()
    config.components.stare_weights = section(stare_weights, **options)
    config.reweighting.stare = section(advantages.stare)
    return config


def test_controller_follows_the_entropy_and_resumes(tmp_path):
    # The entropy of four actions is below 2 nats: the gate is open and gains grow.
    _, states, metrics = train_and_resume(config_of(target=2.0, step=0.01, loss=0.9), tmp_path)
    weights = [np.asarray(state.carry["stare_weights"]) for state in states]
    np.testing.assert_allclose(weights[-1], [1.14, 0.86], rtol=1e-5)
    assert [m["stare_gate"] for m in metrics] == [1.0] * 4


def test_a_shut_gate_and_weights_of_one_are_no_reweighting():
    _, plain, _ = train(lake())
    _, shut, metrics = train(config_of(target=0.0))
    assert metrics[0]["stare_gate"] == 0
    # Other programs, so other rounding.
    assert distance(plain[-1].params, shut[-1].params) < 1e-6
    _, ones, _ = train(config_of(target=2.0, gain=1.0))
    assert distance(plain[-1].params, ones[-1].params) < 1e-6
    _, heavy, _ = train(config_of(target=2.0, gain=3.0))
    assert distance(plain[-1].params, heavy[-1].params) > 1e-4


def test_the_reweighting_alone_says_what_it_needs():
    config = lake()
    config.reweighting.stare = section(advantages.stare)
    with pytest.raises(ValueError, match="config.reweighting.stare needs 'surprising_gain'"):
        build(config)
