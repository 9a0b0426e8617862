"""Behaviour cloning, and the mask of wrong steps (STeP)."""

import jax
import numpy as np

from agentrl import losses
from agentrl.losses import aggregate


def test_worked_numbers():
    """Turns of probability .5, .25, .8, .9, of which the second is wrong."""
    logp = np.log(np.float32([[0.5, 0.25, 0.8, 0.9]]))
    every, correct = np.ones((1, 4), bool), np.array([[True, False, True, True]])
    cloned = aggregate(losses.behaviour_cloning(logp, every), every, "token_mean")
    np.testing.assert_allclose(cloned, 0.601986, atol=1e-6)

    def loss(logp):
        values = losses.corrected_behaviour_cloning(logp, correct)
        return aggregate(values, correct, "token_mean")

    value, gradient = jax.value_and_grad(loss)(logp)
    np.testing.assert_allclose(value, 0.340550, atol=1e-6)
    np.testing.assert_allclose(gradient, [[-1 / 3, 0, -1 / 3, -1 / 3]], atol=1e-6)
