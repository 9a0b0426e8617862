"""SPA: the worked example, what the network learns, and that a run trains with it."""

import jax.numpy as jnp
import numpy as np
import pytest
from experiments import lake, train_and_resume

from agentrl import rewards
from agentrl.config import section
from agentrl.methods.progress import progress, progress_error


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
    with pytest.raises(ValueError, match="progress_reward beta"):
        rewards.progress_reward(mask, reward, parts, valid, beta=-1.0)


def test_a_run_learns_the_sums_and_resumes(tmp_path):
    config = lake()
    config.rollout.num_groups = 32
    # A policy that stays as it is, so that returns do.
    config.optimizer.learning_rate = 1e-9
    config.components.progress = section(progress, steps=5, learning_rate=3e-3)
    config.reward.progress = section(rewards.progress_reward, beta=0.0)
    _, _, metrics = train_and_resume(config, tmp_path)
    assert metrics[1]["progress_error"] < 0.7 * metrics[0]["progress_error"]
