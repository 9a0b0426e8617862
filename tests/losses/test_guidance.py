"""LUFFY's shaped term: values, slopes, and its limit."""

import jax
import numpy as np

from agentrl import losses

CHANCE = np.array([[0.01, 0.1, 0.9, 1.0]], np.float32)
LOGP = np.log(CHANCE)


def test_values_and_slopes():
    np.testing.assert_allclose(losses.shaped_imitation(LOGP), -CHANCE / (CHANCE + 0.1), rtol=1e-5)
    slope = jax.grad(lambda x: losses.shaped_imitation(x).sum())(LOGP)
    np.testing.assert_allclose(slope, -0.1 * CHANCE / (CHANCE + 0.1) ** 2, rtol=1e-5)
    # Largest where the probability is gamma: -1/4.
    np.testing.assert_allclose(slope[0, 1], -0.25, rtol=1e-5)
    assert np.argmin(slope) == 1


def test_large_gamma_is_the_probability_itself():
    values = 1e4 * losses.shaped_imitation(LOGP, gamma=1e4)
    np.testing.assert_allclose(values, -CHANCE, rtol=1e-3)
