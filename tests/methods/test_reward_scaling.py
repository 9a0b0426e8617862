"""Running moments of returns: the worked example, and all batches at once."""

import jax.numpy as jnp
import numpy as np

from agentrl.methods.reward_scaling import Moments, merged


def test_worked_example():
    value = Moments(*jnp.zeros(3))
    for batch, mean, std, scaled in (
        ([1.0, 3.0], 2.0, 1.4142, [0.707, 2.121]),
        ([5.0, 7.0], 4.0, 2.5820, [1.936, 2.711]),
    ):
        value = merged(value, jnp.array(batch), jnp.ones(2, bool))
        np.testing.assert_allclose([value.mean, value.std], [mean, std], atol=1e-4)
        np.testing.assert_allclose(np.array(batch) / value.std, scaled, atol=1e-3)


def test_batches_one_after_another_are_all_at_once():
    returns = np.random.default_rng(0).normal(5.0, 2.0, (6, 8)).astype(np.float32)
    present = np.random.default_rng(1).random((6, 8)) < 0.6
    value = Moments(*jnp.zeros(3))
    for x, there in zip(returns, present, strict=True):
        value = merged(value, jnp.where(there, x, jnp.nan), jnp.asarray(there))
    np.testing.assert_allclose(value.mean, returns[present].mean(), rtol=1e-5)
    np.testing.assert_allclose(value.std, returns[present].std(ddof=1), rtol=1e-5)
    # Equal returns, or none, have no deviation to divide by.
    assert merged(Moments(*jnp.zeros(3)), jnp.ones(4), jnp.ones(4, bool)).std == 1
