"""Values from a fixed set of transitions: reference numbers, reductions, what they converge to."""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import losses

DATA = np.load(pathlib.Path(__file__).parents[1] / "data" / "token_loss.npz")
# LMRL-Gym's example: two action tokens, rewards 0 and 1, then the end.
Q1, Q2, V = np.float32([0.5, 0.8]), np.float32([0.4, 0.5]), np.float32([0.3, 0.6])


@pytest.mark.parametrize(
    ("divergence", "temperature", "key"),
    [
        ("chi2", 0.7, "chi2_alpha0.7"),
        ("total_variation", 0.7, "tv_alpha0.7"),
        ("reverse_kl", 1.0, "rkl_alpha1_clip7"),
    ],
)
def test_dual_value_losses_of_the_reference(divergence, temperature, key):
    d = np.float32(DATA["dvl/diff"])
    options = {"divergence": divergence, "temperature": temperature}
    values = losses.dual_value_loss(np.zeros_like(d), d, **options)
    np.testing.assert_allclose(values, DATA[f"dvl/{key}"], atol=2e-5)
    # Only the difference counts.
    moved = losses.dual_value_loss(np.full_like(d, 3), d + 3, **options)
    np.testing.assert_allclose(moved, values, atol=2e-5)


def test_the_slope_of_the_reference_is_to_v_alone():
    d = np.float32(DATA["dvl/diff"])

    def total(value, q):
        return jnp.sum(losses.dual_value_loss(value, q))

    to_value, to_q = jax.grad(total, argnums=(0, 1))(np.zeros_like(d), d)
    np.testing.assert_allclose(to_value, DATA["dvl/chi2_grad_V"], atol=2e-5)
    assert not np.any(to_q)


@pytest.mark.parametrize(
    ("divergence", "temperature", "lowest"),
    # Quantiles (2 lambda - 1) / lambda of four values: 0.571 and 0.889.
    [("total_variation", 0.7, 2.0), ("total_variation", 0.9, 3.0),
     ("chi2", 0.5, 1.0), ("chi2", 0.7, 2.0), ("chi2", 0.9, 3.0)],
)  # fmt: skip
def test_where_the_dual_losses_are_lowest(divergence, temperature, lowest):
    """For Q of 0, 1, 2, 3 over the actions of one state."""
    q = jnp.arange(4.0)
    candidates = jnp.linspace(-1, 4, 501)
    options = {"divergence": divergence, "temperature": temperature}
    means = jax.vmap(lambda v: jnp.mean(losses.dual_value_loss(jnp.full(4, v), q, **options)))
    np.testing.assert_allclose(candidates[jnp.argmin(means(candidates))], lowest, atol=0.05)


def test_the_largest_difference_is_of_the_mask_alone():
    """It scales the whole batch, so what is in padding must not be it."""
    d, mask = np.float32([[-1.0, 2.0, 6.0]]), np.array([[True, True, False]])
    options = {"divergence": "reverse_kl", "temperature": 1.0}
    zero = np.zeros_like(d)
    values = losses.dual_value_loss(zero, d, mask, **options)
    assert float(values[0, 2]) == 0
    alone = losses.dual_value_loss(zero[:, :2], d[:, :2], **options)
    np.testing.assert_allclose(values[:, :2], alone, rtol=1e-6)


def test_an_expectile_of_one_half_is_the_mean():
    value, q = np.float32([[0.2, 0.8]]), np.float32([[1.0, -0.5]])
    half = losses.expectile_value_loss(value, q, expectile=0.5)
    np.testing.assert_allclose(half, 0.5 * losses.value_loss(value, q), rtol=1e-6)
    q = jnp.float32([0.0, 0.0, 0.0, 1.0])

    def fitted(expectile):
        def slope(v):
            return jnp.mean(losses.expectile_value_loss(jnp.full(4, v), q, expectile=expectile))

        return jax.lax.fori_loop(0, 300, lambda _, v: v - jax.grad(slope)(v), jnp.zeros(()))

    np.testing.assert_allclose(jax.jit(lambda: fitted(0.5))(), 0.25, atol=1e-3)
    # 0.9 (1 - v) = 3 0.1 v.
    np.testing.assert_allclose(jax.jit(lambda: fitted(0.9))(), 0.75, atol=1e-3)


def test_ilql_by_hand():
    low = np.minimum(Q1, Q2)
    target = losses.bootstrap_target(
        np.float32([0, 1]), np.array([False, True]), np.float32([0.6, np.nan]), gamma=0.99
    )
    np.testing.assert_allclose(target, [0.594, 1.0], rtol=1e-6)
    np.testing.assert_allclose(np.mean(losses.q_loss(Q1, target)), 0.012209, atol=1e-6)
    np.testing.assert_allclose(np.mean(losses.q_loss(Q2, target)), 0.071909, atol=1e-6)
    of_v = losses.expectile_value_loss(V, low, expectile=0.7)
    np.testing.assert_allclose(np.mean(of_v), 0.0025, atol=1e-7)
    logits, none = np.float32([[1, 0, 0]] * 2), np.zeros(2, np.int32)
    cql = np.mean(losses.conservative_loss(logits, none))
    total = 0.012209 + 0.071909 + 0.0025 + 2 * 0.01 * cql
    np.testing.assert_allclose(total, 0.097647, atol=2e-6)


def test_monte_carlo_returns_by_hand():
    """Three action tokens, a reward of 1 at the end, Q of 0.5."""
    loss = losses.q_loss(np.full(3, 0.5), np.float32([0.9801, 0.99, 1.0]))
    np.testing.assert_allclose(np.mean(loss), 0.120099, atol=1e-6)
    # Linear from `huber` on, with one slope at the joint.
    slope = jax.grad(lambda q: jnp.sum(losses.q_loss(q, jnp.zeros(3), huber=2.0)))
    np.testing.assert_allclose(slope(jnp.float32([1.0, 2.0, -9.0])), [1, 2, -2], rtol=1e-6)


def test_the_conservative_term_lowers_what_was_not_taken():
    q, action = np.float32([[1.0, 2.0], [np.nan] * 2]), np.array([1, 7])
    mask = np.array([True, False])
    loss = losses.conservative_loss(q, action, mask)
    np.testing.assert_allclose(loss, [np.log(np.exp(-1) + 1), 0], rtol=1e-6)
    slope = jax.grad(lambda q: jnp.sum(losses.conservative_loss(q, action, mask)))(q)
    p = 1 / (1 + np.exp(1))
    np.testing.assert_allclose(slope, [[p, -p], [0, 0]], rtol=1e-5)


@pytest.mark.parametrize("share", [0.25, 0.5, 0.75])
@pytest.mark.parametrize("policy", ["uniform", "expert"])
def test_recoil_in_closed_form(share, policy):
    """One state, gamma 0, the expert takes the first action and the others the second."""
    of_expert, action = np.array([True, False]), np.array([0, 1])
    probability = np.float32([0.5, 0.5] if policy == "uniform" else [1, 0])

    def loss(q):
        each = losses.recoil_loss(q[action], jnp.full(2, q @ probability), jnp.zeros(2), of_expert)
        return each @ jnp.float32([share, 1 - share])

    expected = np.float32([1, -share / (1 - share)] if policy == "uniform" else [0, 0])
    np.testing.assert_allclose(jax.grad(loss)(expected), [0, 0], atol=1e-6)
    # A quadratic form, so that one Newton step leads there.
    hessian = jax.hessian(loss)(jnp.zeros(2))
    lowest = -np.linalg.solve(hessian, jax.grad(loss)(jnp.zeros(2)))
    np.testing.assert_allclose(lowest, expected, atol=1e-5)


def test_nothing_behind_the_mask_is_read():
    mask, bad = np.array([True, False]), np.float32([1.0, np.nan])
    good = np.float32([1.0, 0.0])
    for function, arrays in (
        (losses.q_loss, (bad, bad + 1)),
        (losses.recoil_loss, (bad, bad, bad, np.array([True, True]))),
    ):
        plain = function(*(np.where(mask, x, 0) for x in arrays[:3]), *arrays[3:], mask)
        np.testing.assert_array_equal(function(*arrays, mask), plain)
        slope = jax.grad(lambda q, f=function, a=arrays: jnp.sum(f(q, *a[1:], mask)))(bad)
        assert np.isfinite(slope).all() and slope[1] == 0
    assert np.isfinite(losses.bootstrap_target(good, ~mask, bad, gamma=1.0)).all()


def test_weights():
    q, v = np.float32([1.0, 0.0, 500.0]), np.float32([0.0, 0.0, 0.0])
    weight = losses.exponential_weight(q, v, beta=3.0)
    np.testing.assert_allclose(weight, [np.exp(3), 1, 100], rtol=1e-5)
    np.testing.assert_array_equal(losses.exponential_weight(q, v, beta=0.0), [1, 1, 1])
    logp = np.log(np.float32([0.5, 0.25, 0.8]))
    np.testing.assert_allclose(losses.weighted_imitation(logp, weight), -weight * logp, rtol=1e-6)
    np.testing.assert_array_equal(
        losses.weighted_imitation(logp, np.ones(3)), losses.behaviour_cloning(logp)
    )


@pytest.mark.parametrize(
    ("function", "options", "match"),
    [
        (losses.dual_value_loss, {"divergence": "kl"}, "divergence='kl'"),
        (losses.dual_value_loss, {"temperature": 1.5}, "temperature=1.5"),
        (losses.dual_value_loss, {"clip": 0.0}, "clip=0"),
        (losses.expectile_value_loss, {"expectile": 1.0}, "expectile=1"),
        (losses.q_loss, {"huber": 0.0}, "huber=0"),
        (losses.exponential_weight, {"beta": -1.0}, "beta=-1"),
    ],
)
def test_errors(function, options, match):
    with pytest.raises(ValueError, match=match):
        function(V, Q1, **options)
