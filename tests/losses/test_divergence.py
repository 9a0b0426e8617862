"""KL estimators against verl's values and gradients, and against exact divergences."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import recorded
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl import losses
from agentrl.losses import KL_ESTIMATORS

DATA = recorded.arrays("token_loss")
MASK = DATA["in/mask"].astype(bool)
LOGP, OLD, REF = (np.asarray(DATA[f"in/{k}"], np.float32) for k in ("logp", "old_logp", "ref_logp"))
kl = jax.jit(
    lambda *args, estimator: losses.kl(*args, estimator=estimator)[0], static_argnames="estimator"
)
approx_kl = jax.jit(losses.approx_kl)


@functools.cache
def summed_and_grads(estimator):
    """Sum of an estimator and its gradients to (logp, ref_logp)."""
    return jax.jit(jax.value_and_grad(lambda args: jnp.sum(kl(*args, MASK, estimator=estimator))))


@pytest.mark.parametrize("estimator", KL_ESTIMATORS)
def test_agrees_with_verl(estimator):
    value = kl(LOGP, REF, estimator=estimator)
    np.testing.assert_allclose(value, DATA[f"kl/{estimator}/value"], atol=1e-6)
    _, (grad, _) = summed_and_grads(estimator)([LOGP, REF])
    np.testing.assert_allclose(grad, DATA[f"kl/{estimator}/grad_sum"], atol=2e-6)


@pytest.mark.parametrize(
    "estimator, d, value, grad",
    [
        ("k1", 0.5, 0.5, 1.0),
        ("k2", 0.5, 0.125, 0.5),
        ("k3", 0.5, np.exp(-0.5) - 0.5, 1 - np.exp(-0.5)),  # 0.1065, 0.3935
        ("k1", -1.0, -1.0, 1.0),
        ("k2", -1.0, 0.5, -1.0),
        ("k3", -1.0, np.e - 2, 1 - np.e),  # 0.7183, -1.7183
        ("k3+", -1.0, np.e - 2, -1.0),
    ],
)
def test_worked_numbers(estimator, d, value, grad):
    ours = jax.value_and_grad(lambda x: kl(x, np.float32(-2.0), estimator=estimator))
    np.testing.assert_allclose(ours(np.float32(d - 2)), (value, grad), rtol=1e-5)


def test_expectations_on_two_outcomes():
    p, q = np.array([0.7, 0.3]), np.array([0.5, 0.5])
    exact = np.sum(p * np.log(p / q))
    assert round(exact, 6) == 0.082283
    mean = {e: float(p @ kl(np.log(p), np.log(q), estimator=e)) for e in KL_ESTIMATORS}
    for estimator in ("k1", "k3", "k3+"):
        np.testing.assert_allclose(mean[estimator], exact, rtol=1e-5)
    np.testing.assert_allclose(mean["k2"], 0.078766, rtol=1e-4)


def test_expected_gradients_are_those_that_the_docstring_names():
    logits = np.float32([0.3, -0.7, 1.1, 0.0])
    q = np.array([0.1, 0.4, 0.2, 0.3], np.float32)

    def forward(x):
        return jnp.sum(jax.nn.softmax(x) * (jax.nn.log_softmax(x) - jnp.log(q)))

    def reverse(x):
        return jnp.sum(q * (jnp.log(q) - jax.nn.log_softmax(x)))

    def sampled(x, estimator):
        p = jax.lax.stop_gradient(jax.nn.softmax(x))
        return jnp.sum(p * kl(jax.nn.log_softmax(x), jnp.log(q), estimator=estimator))

    gradient = jax.jit(jax.grad(sampled), static_argnames="estimator")
    towards, away = jax.jit(lambda x: (jax.grad(forward)(x), jax.grad(reverse)(x)))(logits)
    for estimator, exact in (("k1", 0 * q), ("k2", towards), ("k3+", towards), ("k3", away)):
        np.testing.assert_allclose(gradient(logits, estimator), exact, atol=1e-6)


def test_the_ceiling_of_k3_and_its_gradient():
    d = np.float32([-2.5, -2.7, -50.0, 50.0])
    zero = np.zeros(4)
    np.testing.assert_allclose(
        kl(d, zero, estimator="k3"), [np.exp(2.5) - 3.5, 10, 10, 10], rtol=1e-6
    )
    grad = jax.grad(lambda x: kl(x, zero, estimator="k3").sum())(d)
    np.testing.assert_allclose(grad, [1 - np.exp(2.5), 0, 0, 0], rtol=1e-5)
    straight = jax.value_and_grad(lambda x: kl(x, zero, estimator="k3+").sum())(d)
    np.testing.assert_allclose(straight[0], np.exp(2.5) - 3.5 + 30, rtol=1e-6)
    np.testing.assert_array_equal(straight[1], d)


@settings(max_examples=30, deadline=None)
@given(st.floats(-2.5, 9, width=32))
def test_k3_is_never_negative_and_accurate_near_zero(d):
    for scaled in (d, d * 1e-2, d * 1e-5):
        ours = float(kl(np.float32(scaled), np.float32(0), estimator="k3"))
        x = -np.float64(np.float32(scaled))
        assert ours >= 0
        # a few units in the last place of d, where exp(-d) + d - 1 as written would lose 1e-7
        np.testing.assert_allclose(ours, np.expm1(x) - x, rtol=1e-6, atol=1e-6 * abs(x))


def test_equal_policies_have_no_divergence_and_no_pull_but_that_of_k1():
    for estimator in KL_ESTIMATORS:
        value, (grad, _) = summed_and_grads(estimator)([LOGP, LOGP])
        assert float(value) == 0
        np.testing.assert_array_equal(grad, MASK * 1.0 if estimator == "k1" else 0 * MASK)


def test_approx_kl_is_k3_of_the_old_policy_against_the_new():
    expected = kl(OLD, LOGP, MASK, estimator="k3").sum() / MASK.sum()
    np.testing.assert_allclose(approx_kl(LOGP, OLD, MASK), expected, rtol=1e-5)
    poisoned = np.where(MASK, LOGP, np.nan)
    np.testing.assert_array_equal(approx_kl(poisoned, OLD, MASK), approx_kl(LOGP, OLD, MASK))
    # rho = 2: 2 - 1 - log 2; no ceiling: exp(5) - 6
    half = approx_kl(np.log([2.0]), np.zeros(1))
    np.testing.assert_allclose(half, 1 - np.log(2), rtol=1e-6)
    np.testing.assert_allclose(approx_kl(np.full(1, 5.0), np.zeros(1)), np.exp(5) - 6, rtol=1e-6)
    assert float(approx_kl(LOGP, OLD, np.zeros_like(MASK))) == 0


def test_precision():
    low = kl(np.asarray(LOGP, jnp.bfloat16), np.asarray(REF, jnp.bfloat16), estimator="k3")
    assert low.dtype == np.float32


def test_the_metric_is_a_kl_whatever_the_loss_is_aggregated_by():
    """Rows of other lengths: a mean per position is not what row_sum or constant make of it."""
    for estimator in losses.KL_ESTIMATORS:
        values, metrics = losses.kl(LOGP, REF, MASK, estimator=estimator)
        np.testing.assert_array_equal(metrics["kl_ref"], values)
        mean = float(losses.aggregate(metrics["kl_ref"], MASK, "token_mean"))
        np.testing.assert_allclose(mean, np.asarray(values)[MASK].mean(), rtol=1e-5)
