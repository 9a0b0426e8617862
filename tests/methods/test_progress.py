"""SPA: the worked example; what the network learns is in test_together.py."""

import jax.numpy as jnp
import numpy as np

from agentrl import rewards
from agentrl.methods.bags import progress_error


def test_worked_example():
    mask = np.array([[1, 1, 1, 1, 0]], bool)
    parts = np.float32([[0.1, 0.35, 0.05, 0.4, np.nan]])
    valid = np.array([[1, 1, 0, 1, 1]], bool)
    reward = np.full((1, 5), np.nan, np.float32)
    ours = rewards.progress_reward(mask, reward, parts, valid)
    np.testing.assert_allclose(ours, [[0.6, 0.85, 0.05, 0.9, 0]], atol=1e-6)
    # The sum is 0.9 where the outcome is 1.
    error = progress_error(jnp.asarray(parts), jnp.ones(1), jnp.asarray(mask))
    np.testing.assert_allclose(error, 0.01, rtol=1e-5)
