"""Entropy and log-probability of categorical distributions with illegal actions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.test_util import check_grads

from agentrl import losses

entropy = jax.jit(losses.categorical_entropy)
entropy_grad = jax.jit(jax.grad(lambda logits: losses.categorical_entropy(logits).sum()))
categorical_log_prob = jax.jit(losses.categorical_log_prob)
log_prob_and_grad = jax.jit(jax.value_and_grad(losses.categorical_log_prob))

INF = np.inf
LOGITS = np.float32(
    [
        [0.0, 0.0, 0.0, 0.0],
        [1.0, 2.0, 3.0, -INF],
        [-INF, 5.0, -INF, -INF],
        [-INF, -INF, -INF, -INF],
        [300.0, -300.0, 0.0, 299.0],
    ]
)


def reference(row):
    """float64 (probabilities, entropy, gradient of the entropy) of one row of logits."""
    row = np.asarray(row, np.float64)
    p = np.exp(row - row.max())
    p /= p.sum()
    log_p = np.log(p, where=p > 0, out=np.zeros_like(p))
    total = -np.sum(p * log_p)
    return p, total, -p * (log_p + total)


def test_worked_entropies():
    ours = entropy(LOGITS)
    np.testing.assert_allclose(ours[0], np.log(4), rtol=1e-6)
    np.testing.assert_allclose(ours[1], reference(LOGITS[1, :3])[1], rtol=1e-6)
    assert float(ours[2]) == 0 and float(ours[3]) == 0  # one legal action, and none
    np.testing.assert_allclose(ours[4], reference([0.0, -1.0])[1], rtol=1e-5)
    assert ours.dtype == np.float32


def test_gradient_of_the_entropy():
    grad = entropy_grad(LOGITS)
    for row in (0, 1, 2, 4):
        np.testing.assert_allclose(grad[row], reference(LOGITS[row])[2], atol=1e-5)
    np.testing.assert_array_equal(grad[3], np.zeros(4))
    assert np.all(np.asarray(grad)[np.isneginf(LOGITS)] == 0)


def test_log_prob_and_its_gradient():
    for row, action in ((0, 2), (1, 2), (2, 1), (4, 0)):
        value, grad = log_prob_and_grad(LOGITS[row], np.int32(action))
        p = reference(LOGITS[row])[0]
        np.testing.assert_allclose(value, np.log(p[action]), rtol=1e-5)
        np.testing.assert_allclose(grad, (np.arange(4) == action) - p, atol=1e-6)


@pytest.mark.parametrize("row, action", [(1, 3), (2, 0), (3, 2)])
def test_an_illegal_action_is_impossible_and_has_no_gradient(row, action):
    value, grad = log_prob_and_grad(LOGITS[row], np.int32(action))
    assert float(value) == -INF
    np.testing.assert_array_equal(grad, np.zeros(4))


def test_leaving_actions_out_is_masking_them():
    short, long = np.float32([0.3, -1.0]), np.float32([-INF, 0.3, -INF, -1.0])
    np.testing.assert_array_equal(entropy(short), entropy(long))
    np.testing.assert_array_equal(
        categorical_log_prob(short, np.int32(1)), categorical_log_prob(long, np.int32(3))
    )


def test_a_large_negative_logit_is_nearly_a_mask():
    finite = np.where(np.isneginf(LOGITS[1]), np.finfo(np.float32).min, LOGITS[1])
    np.testing.assert_allclose(entropy(finite), entropy(LOGITS[1]), rtol=1e-6)
    assert np.all(np.isfinite(entropy_grad(finite)))


def test_nan_stays_visible():
    broken = np.float32([0.0, np.nan, -INF, 1.0])
    assert np.isnan(entropy(broken)) and np.isnan(log_prob_and_grad(broken, np.int32(0))[0])


def test_derivatives_of_first_and_second_order_both_ways():
    keys = jax.random.split(jax.random.key(0), 2)
    logits, reference = (jax.random.normal(key, (3, 5)) for key in keys)
    action = jnp.array([0, 4, 2])
    functions = (
        losses.categorical_entropy,
        lambda x: losses.categorical_log_prob(x, action),
        lambda x: losses.categorical_kl(x, reference),
    )
    for function in functions:
        check_grads(function, (logits,), order=2, modes=("fwd", "rev"), atol=2e-2, rtol=2e-2)


def test_divergence_leaves_out_what_is_illegal():
    grad = jax.grad(lambda x: losses.categorical_kl(x, jnp.roll(x, 1, axis=0))[1])
    masked = jnp.array([[0.5, -INF, 1.0], [0.2, -INF, -0.4]])
    short = masked[:, ::2]
    np.testing.assert_allclose(grad(masked)[1, ::2], grad(short)[1], rtol=1e-6)
    assert float(grad(masked)[1, 1]) == 0
    nothing = jnp.full((2, 3), -INF)
    assert float(losses.categorical_kl(nothing, nothing)[0]) == 0
    np.testing.assert_array_equal(grad(nothing), np.zeros((2, 3)))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-40, 40, width=32), min_size=6, max_size=6), st.floats(-100, 100))
def test_bounds_normalisation_and_shifts(row, shift):
    logits = np.asarray(row, np.float32)
    value = float(entropy(logits))
    assert -1e-5 <= value <= np.log(6) + 1e-5
    log_p = categorical_log_prob(np.tile(logits, (6, 1)), np.arange(6))
    np.testing.assert_allclose(np.exp(log_p).sum(), 1, rtol=1e-5)
    np.testing.assert_allclose(-np.sum(np.exp(log_p) * log_p), value, atol=1e-4)
    np.testing.assert_allclose(entropy(logits + np.float32(shift)), value, atol=1e-3)


def test_precision_and_vmap():
    low = np.asarray(LOGITS, jnp.bfloat16)
    assert entropy(low).dtype == np.float32
    assert categorical_log_prob(low, np.zeros(5, np.int32)).dtype == np.float32
    np.testing.assert_allclose(jax.vmap(entropy)(LOGITS), entropy(LOGITS), rtol=1e-6)
