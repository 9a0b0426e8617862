"""Gaussian log-probability, entropy and divergence, against worked numbers and integrals."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl import losses

log_prob = jax.jit(losses.gaussian_log_prob)
entropy = jax.jit(losses.gaussian_entropy)
kl = jax.jit(losses.gaussian_kl)
log_prob_grad = jax.jit(jax.grad(losses.gaussian_log_prob, argnums=(0, 1, 2)))
kl_grad = jax.jit(jax.grad(losses.gaussian_kl, argnums=(0, 1, 2, 3)))

MEAN, LOG_STD = np.float32([0.5, -1.0]), np.float32([0.0, np.log(0.5)])
NUMBER = st.floats(-2, 2, width=32)
PAIR = st.lists(NUMBER, min_size=2, max_size=2).map(np.float32)
FOUR = st.lists(NUMBER, min_size=4, max_size=4)
# Where the densities of all tests have their mass, for sums in the place of integrals.
GRID, WIDTH = np.linspace(-40, 40, 20001, retstep=True)


def density(mean, log_std):
    """Of one component on the grid, float64, by another way of writing it."""
    mean, variance = float(mean), float(np.exp(2 * np.float64(log_std)))
    return np.exp(-((GRID - mean) ** 2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)


def test_worked_numbers():
    # -((1.5 - 0.5) / 1)^2 / 2 - 0.918939 and -((-2 + 1) / 0.5)^2 / 2 - ln 0.5 - 0.918939.
    value = log_prob(MEAN, LOG_STD, np.float32([1.5, -2.0]))
    np.testing.assert_allclose(value, -0.5 - 2.0 + 0.693147 - 2 * 0.918939, atol=1e-5)
    # 2 * 1.418939 + ln 0.5.
    np.testing.assert_allclose(entropy(LOG_STD), 2.837877 - 0.693147, atol=1e-5)
    # Against N(0, 1) twice: 0.5^2 / 2, and (0.25 + 1) / 2 - 1 / 2 + ln 2.
    value = kl(MEAN, LOG_STD, np.zeros(2, np.float32), np.zeros(2, np.float32))
    np.testing.assert_allclose(value, 0.125 + 0.125 + 0.693147, atol=1e-5)
    assert value.dtype == np.float32 and value.shape == ()


@settings(deadline=None, max_examples=25)
@given(mean=PAIR, log_std=PAIR, action=PAIR)
def test_it_is_a_density(mean, log_std, action):
    near = [np.argmin(np.abs(GRID - a)) for a in action]
    each = [density(m, s) for m, s in zip(mean, log_std, strict=True)]
    value = log_prob(mean, log_std, np.float32(GRID[near]))
    expected = sum(np.log(p[i]) for p, i in zip(each, near, strict=True))
    np.testing.assert_allclose(value, expected, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose([p.sum() * WIDTH for p in each], 1, atol=1e-5)


@settings(deadline=None, max_examples=25)
@given(mean=PAIR, log_std=PAIR, ref_mean=PAIR, ref_log_std=PAIR)
def test_entropy_and_divergence_are_the_integrals(mean, log_std, ref_mean, ref_log_std):
    total = divergence = 0.0
    for m, s, n, r in zip(mean, log_std, ref_mean, ref_log_std, strict=True):
        p = density(m, s)
        # Logarithms written out: far from the mean the densities are 0 in floating point.
        log_p = -0.5 * ((GRID - m) / np.exp(np.float64(s))) ** 2 - s - 0.5 * np.log(2 * np.pi)
        log_q = -0.5 * ((GRID - n) / np.exp(np.float64(r))) ** 2 - r - 0.5 * np.log(2 * np.pi)
        total -= np.sum(p * log_p) * WIDTH
        divergence += np.sum(p * (log_p - log_q)) * WIDTH
    np.testing.assert_allclose(entropy(log_std), total, atol=1e-4)
    ours = kl(mean, log_std, ref_mean, ref_log_std)
    np.testing.assert_allclose(ours, divergence, rtol=1e-3, atol=1e-4)
    assert ours > -1e-5 and float(kl(mean, log_std, mean, log_std)) == 0


def test_gradients():
    action = np.float32([1.5, -2.0])
    of_mean, of_log_std, of_action = log_prob_grad(MEAN, LOG_STD, action)
    np.testing.assert_allclose(of_mean, [1.0, -4.0], rtol=1e-5)  # (a - m) / s^2
    np.testing.assert_allclose(of_log_std, [0.0, 3.0], atol=1e-5)  # ((a - m) / s)^2 - 1
    np.testing.assert_allclose(of_action, -of_mean)
    zeros = np.zeros(2, np.float32)
    of_mean, of_log_std, *of_reference = kl_grad(MEAN, LOG_STD, zeros, zeros)
    np.testing.assert_allclose(of_mean, MEAN, rtol=1e-5)
    np.testing.assert_allclose(of_log_std, [0.0, 0.25 - 1], atol=1e-5)  # s^2 - 1
    np.testing.assert_array_equal(of_reference, np.zeros((2, 2)))


def test_a_small_divergence_is_not_swallowed():
    # s = exp(1e-4): KL = 1e-4^2 to first order, where (s^2 - 1) / 2 - log s would round to noise.
    value = kl(np.zeros(1), np.float32([1e-4]), np.zeros(1), np.zeros(1))
    np.testing.assert_allclose(value, 1e-8, rtol=1e-2)


@settings(deadline=None, max_examples=25)
@given(logits=FOUR, others=FOUR)
def test_categorical_divergence(logits, others):
    logits, others = np.float32(logits), np.float32(others)
    legal = np.array([True, True, False, True])
    p, q = (np.exp(np.float64(x[legal])) for x in (logits, others))
    p, q = p / p.sum(), q / q.sum()
    masked = (jnp.where(legal, x, -np.inf) for x in (logits, others))
    value = losses.categorical_kl(*masked)
    np.testing.assert_allclose(value, np.sum(p * np.log(p / q)), atol=1e-5)
