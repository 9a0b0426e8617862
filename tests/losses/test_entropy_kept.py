"""Clip-Cov, KL-Cov and AEPO against recorded values, worked numbers, and the losses they become."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import recorded

from agentrl import losses
from agentrl.losses import aggregate

DATA = recorded.arrays("token_loss")
MASK = DATA["in/mask"].astype(bool)
LOGP, OLD, ADVANTAGE, ENTROPY = (
    np.asarray(DATA[key], np.float32)
    for key in ("in/logp", "in/old_logp", "adv/grpo", "in/entropy")
)
DAPO = {"clip_low": 0.2, "clip_high": 0.28}
LOSSES = {
    "clip_cov": lambda *args: losses.clip_cov(*args, share=1.0, low=0.3, high=5.0, **DAPO)[0],
    "kl_cov": functools.partial(losses.kl_cov, share=0.1),
    "aepo": lambda *args: losses.aepo(*args[:3], ENTROPY, *args[3:], **DAPO)[0],
    "aepo, clip": lambda *args: losses.aepo(
        *args[:3], ENTROPY, *args[3:], **DAPO, entropy_weight=0.0
    )[0],
}
RECORDED = {
    "clip_cov": "clip_cov_all_lb0.3_ub5",
    "kl_cov": "kl_cov_ratio0.1_coef1",
    "aepo": "aepo_clip+adv",
    "aepo, clip": "aepo_clip_only",
}


@functools.cache
def value_and_grad(name):
    def mean(logp, *rest):
        return aggregate(LOSSES[name](logp, *rest), rest[-1], "token_mean")

    return jax.jit(jax.value_and_grad(mean))


@pytest.mark.parametrize("name", LOSSES)
def test_recorded_values_and_gradients(name):
    value, grad = value_and_grad(name)(LOGP, OLD, ADVANTAGE, MASK)
    np.testing.assert_allclose(value, DATA[f"loss/{RECORDED[name]}/value"], atol=1e-6)
    np.testing.assert_allclose(grad, DATA[f"loss/{RECORDED[name]}/grad_logp"], atol=1e-6)


def test_worked_covariances():
    logp, advantage = np.float32([[-0.1, -2.3, -0.2, -1.6]]), np.float32([[1, 1, -1, -1]])
    covariance = losses.covariances(logp, advantage)
    np.testing.assert_allclose(covariance, [[0.95, -1.25, -0.85, 0.55]], atol=1e-6)
    # The largest alone is penalised; the KL is |logp - old|.
    loss = losses.kl_cov(logp, logp - 0.1, advantage, share=0.0)
    plain = -advantage * np.exp(np.float32(0.1))
    np.testing.assert_allclose(loss - plain, [[0.1, 0, 0, 0]], atol=1e-6)


def test_without_its_own_part_each_is_a_known_loss():
    args = LOGP, OLD, ADVANTAGE, MASK
    none = losses.clip_cov(*args, low=99.0, high=100.0, **DAPO)
    ppo = losses.clipped_surrogate(*args, **DAPO)
    jax.tree.map(np.testing.assert_array_equal, none, ppo)
    # PPO without bounds.
    free, _ = losses.clipped_surrogate(*args, clip_low=1.0, clip_high=1e9)
    np.testing.assert_allclose(losses.kl_cov(*args, coefficient=0.0), free, rtol=1e-6)
    dual = DAPO | {"dual_clip": 3.0}
    forward, metrics = losses.aepo(LOGP, OLD, ADVANTAGE, ENTROPY, MASK, entropy_weight=0.0, **dual)
    values, expected = losses.clipped_surrogate(*args, **dual)
    np.testing.assert_allclose(forward, values, rtol=1e-6)
    np.testing.assert_array_equal(metrics["clip_fraction"], expected["clip_fraction"])


def test_the_share_is_drawn_anew_for_other_inputs():
    logp = np.linspace(-3, -0.1, 40, dtype=np.float32)[None]
    advantage = np.linspace(-1, 3, 40, dtype=np.float32)[None]

    def left_out(shift):
        logps = (logp + shift, logp + shift)
        loss, metrics = losses.clip_cov(*logps, advantage, share=0.1, low=0.0, high=9.0)
        np.testing.assert_array_equal(metrics["clip_fraction"], loss == 0)
        return np.flatnonzero(np.asarray(loss) == 0)

    first, again, other = left_out(0.0), left_out(0.0), left_out(0.25)
    assert len(first) == 4 and np.array_equal(first, again) and not np.array_equal(first, other)
    assert np.all(np.asarray(losses.covariances(logp, advantage))[0, first] > 0)


@pytest.mark.parametrize(
    "ratio, gain_if_good, gain_if_bad",
    [(0.7, 0.7, 0.0), (1.0, 1.0, -1.0), (1.6, 1.28, -1.6), (3.5, 1.28, 0.0)],
)
def test_worked_coefficients_of_aepos_clip(ratio, gain_if_good, gain_if_bad):
    def gain(advantage):
        grad = jax.grad(lambda logp: losses.aepo(logp, 0.0, advantage, 1.0, entropy_weight=0.0)[0])
        return -float(grad(jnp.log(jnp.float32(ratio))))

    np.testing.assert_allclose([gain(1.0), gain(-1.0)], [gain_if_good, gain_if_bad], rtol=1e-6)


def test_worked_weights_of_entropies():
    entropy, advantage = np.float32([[0.2, 0.4, 1.2]]), np.full((1, 3), 0.5, np.float32)
    got = losses.entropy_weighted(advantage, entropy)
    np.testing.assert_allclose(got, [[0.4244, 0.4622, 0.6134]], atol=5e-5)
    # Equal entropies, and a single position, change nothing.
    equal = losses.entropy_weighted(advantage, np.ones((1, 3), np.float32))
    np.testing.assert_array_equal(equal, advantage)
    # 1.3 is no float32, and the mean of many is off by a rounding error.
    for count in (10, 25, 1000):
        ones = np.ones((1, count), np.float32)
        np.testing.assert_array_equal(losses.entropy_weighted(ones, 1.3 * ones), ones)


def test_kl_cov_does_not_push_where_nothing_has_moved():
    def loss(logp):
        advantage = jnp.zeros_like(logp)
        return losses.kl_cov(logp, jnp.float32([[-0.5]]), advantage, share=1.0).sum()

    np.testing.assert_array_equal(jax.grad(loss)(jnp.float32([[-0.5]])), 0.0)
    np.testing.assert_allclose(jax.grad(loss)(jnp.float32([[-0.4]])), 1.0)
    np.testing.assert_allclose(jax.grad(loss)(jnp.float32([[-0.6]])), -1.0)
