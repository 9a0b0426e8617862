"""DataMind's mixture of imitation and RL: worked numbers, reductions, gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import losses

LOGP = np.log(np.float32([[0.5, 0.25, 0.8]]))
OLD, ADVANTAGE = np.log(np.float32([[0.4, 0.3, 0.8]])), np.float32([[1.0, -1.0, 0.5]])
MASK = np.array([[True, True, False]])


def test_worked_shares():
    step = np.array([0, 50, 175, 300, 349, 350, 1000])
    ours = losses.cosine_share(step / 1000, until=0.35)
    expected = [0.9, 0.857912, 0.475, 0.092088, 0.050017, 0.05, 0.05]
    np.testing.assert_allclose(ours, expected, atol=1e-6)


@pytest.mark.parametrize("weighting, weight", [("one", 1.0), ("p", 0.5), ("p(1-p)", 0.25)])
def test_weights_of_tokens_have_no_gradient(weighting, weight):
    def loss(logp):
        return losses.mixed_imitation(logp, 0.0, weighting=weighting)

    value, grad = jax.value_and_grad(loss)(jnp.log(jnp.float32(0.5)))
    np.testing.assert_allclose(value, 0.9 * weight * np.log(2), rtol=1e-5)
    np.testing.assert_allclose(grad, -0.9 * weight, rtol=1e-5)


def test_the_shares_add_up_to_the_two_losses():
    imitation = losses.mixed_imitation(LOGP, 0.3, MASK)
    surrogate, _ = losses.mixed_surrogate(LOGP, OLD, ADVANTAGE, 0.3, MASK, dual_clip=None)
    share = float(losses.cosine_share(0.3))
    np.testing.assert_allclose(imitation, share * losses.behaviour_cloning(LOGP, MASK), rtol=1e-6)
    plain, metrics = losses.clipped_surrogate(LOGP, OLD, ADVANTAGE, MASK, clip_high=0.28)
    np.testing.assert_allclose(surrogate, (1 - share) * plain, rtol=1e-6)
    # Without imitation at all it is the surrogate.
    alone, counted = losses.mixed_surrogate(
        LOGP, OLD, ADVANTAGE, 0.3, MASK, peak=0.0, valley=0.0, dual_clip=None
    )
    np.testing.assert_array_equal(alone, plain)
    np.testing.assert_array_equal(counted["clip_fraction"], metrics["clip_fraction"])
