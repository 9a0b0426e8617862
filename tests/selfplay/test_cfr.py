"""Counterfactual regret minimisation: OpenSpiel's curve, and what it converges to."""

import pathlib

import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import selfplay
from agentrl.selfplay import cfr
from agentrl.selfplay.games import sequence_form

VECTORS = np.load(pathlib.Path(__file__).parents[1] / "data" / "poker.npz")
CURVES = [
    (name, int(iterations), value)
    for name, key in (("KuhnPoker-v1", "kuhn_poker"), ("LeducPoker-v1", "leduc_poker"))
    for iterations, value in VECTORS[f"{key}/cfr"]
]


@pytest.mark.parametrize("name, iterations, expected", CURVES)
def test_reference_exploitability(name, iterations, expected):
    policy = cfr.average_policy(name, iterations)
    assert selfplay.exploitability(name, policy) == pytest.approx(expected, abs=1e-9)


def test_value_of_kuhn_poker():
    policy = cfr.average_policy("KuhnPoker-v1", 5000)
    returns = selfplay.expected_returns("KuhnPoker-v1", policy)
    np.testing.assert_allclose(returns, [-1 / 18, 1 / 18], atol=1e-4)


def test_float32_converges_too():
    form = sequence_form("KuhnPoker-v1")
    state = cfr.run(form, cfr.initial(form), 500)
    assert state.regret.dtype == jnp.float32
    policy = cfr.sf.behaviour(form, state.plans)
    assert selfplay.exploitability("KuhnPoker-v1", policy) < 2e-3


def test_no_iterations():
    with pytest.raises(ValueError, match="iterations=0: expected at least 1"):
        cfr.average_policy("KuhnPoker-v1", 0)
