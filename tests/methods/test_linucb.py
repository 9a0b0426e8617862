"""LinUCB: worked numbers and arrays (token_loss.npz, `linucb`), ridge regression, changes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import recorded

from agentrl.methods import linucb

VECTORS = recorded.arrays("token_loss")


def test_worked_numbers():
    x = jnp.asarray(VECTORS["linucb/x"], jnp.float32)
    state = linucb.empty(2)
    assert float(linucb.upper_bounds(state, x)) == pytest.approx(3.7162, abs=1e-4)
    state = linucb.updated(state, x, 1.0)
    assert float(linucb.upper_bounds(state, x)) == pytest.approx(3.1278, abs=1e-4)
    state = linucb.updated(state, x, 0.0)
    inverse = VECTORS["linucb/Ainv_after_2_updates_r[1,0]"]
    np.testing.assert_allclose(jnp.linalg.inv(state.precision), inverse, atol=1e-5)
    theta = jnp.linalg.solve(state.precision, state.total)
    np.testing.assert_allclose(theta, VECTORS["linucb/theta"], atol=1e-5)
    at_once = linucb.updated(
        linucb.empty(2), jnp.stack([x, x, x]), jnp.array([1.0, 5.0, 0.0]), jnp.array([1, 0, 1]) > 0
    )
    for one, other in zip(at_once, state, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_a_context():
    x = linucb.context(*map(jnp.float32, (0.9, 0.2, 500.0, 0.5, 1.0)))
    expected = [0.5623, 0.5061, 0.1125, 0.1406, 0.2812, 0.5623]
    np.testing.assert_allclose(x, expected, atol=1e-4)
    slow = linucb.context(*map(jnp.float32, (0.0, 0.0, 9e9, 0.0, 0.0)))
    np.testing.assert_allclose(slow, np.array([1, 0, 0, 1, 0, 0]) / np.sqrt(2), atol=1e-5)


@pytest.mark.parametrize("keep", [1.0, 0.9])
def test_it_is_ridge_regression_with_weights_that_fade(keep):
    rng = np.random.default_rng(0)
    xs, outcomes = rng.normal(size=(30, 4)).astype(np.float32), rng.random(30)
    state = linucb.empty(4, regularization=2.0)
    for x, outcome in zip(xs, outcomes, strict=True):
        state = linucb.updated(state, jnp.asarray(x), outcome, keep=keep, regularization=2.0)
    weight = keep ** np.arange(30)[::-1]
    gram = 2.0 * np.eye(4) + (xs * weight[:, None]).T @ xs
    np.testing.assert_allclose(state.precision, gram, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(state.total, (weight * outcomes) @ xs, rtol=1e-4, atol=1e-4)


def test_routing_keeps_the_best_matching_and_available():
    bounds, match = jnp.array([0.9, 0.5, 0.7, 0.8]), jnp.array([0.1, 0.9, 0.8, 0.7])
    everyone = jnp.ones(4)
    assert int(linucb.route(bounds, match, everyone, candidates=4)) == 0
    assert int(linucb.route(bounds, match, everyone, candidates=3)) == 3
    assert int(linucb.route(bounds, match, everyone.at[3].set(0), candidates=2)) == 2
    assert int(linucb.route(bounds, match, 0 * everyone)) == 1
    assert int(linucb.route(jnp.zeros(4), match, everyone, candidates=4)) == 0


def regret(keep, change, alpha=0.2, rounds=1000, workers=4):
    """Expected reward lost per round: workers are told apart by fixed features; at `change` the
    best becomes the worst."""
    quality = jnp.array([0.4, 0.5, 0.6, 0.9])
    features = jnp.eye(workers)

    def play(key):
        def turn(state, now):
            number, key = now
            chances = jnp.where(number < change, quality, quality[::-1])
            worker = jnp.argmax(linucb.upper_bounds(state, features, alpha=alpha, bound=0.1))
            outcome = jax.random.bernoulli(key, chances[worker]) * 1.0
            state = linucb.updated(state, features[worker], outcome, keep=keep)
            return state, chances.max() - chances[worker]

        keys = jax.random.split(key, rounds)
        return jax.lax.scan(turn, linucb.empty(workers), (jnp.arange(rounds), keys))[1]

    return np.asarray(jax.vmap(play)(jax.random.split(jax.random.key(0), 64))).mean(axis=0)


def test_regret_falls_and_a_change_is_found():
    stays = regret(1.0, change=10_000)
    assert stays[-200:].mean() < 0.1 * stays[:50].mean()
    # The bonus grows with the logarithm of the rounds and looks again; a small one needs
    # forgetting, which costs more than it gains where the bonus is large enough.
    assert regret(1.0, change=500)[600:].mean() < 0.1
    firm, forgets = (regret(keep, change=500, alpha=0.1) for keep in (1.0, 0.98))
    assert forgets[600:].mean() < 0.5 * firm[600:].mean()


@pytest.mark.parametrize(
    "call",
    [
        lambda: linucb.empty(0),
        lambda: linucb.empty(2, regularization=0.0),
        lambda: linucb.upper_bounds(linucb.empty(2), jnp.ones(2), delta=0.0),
        lambda: linucb.updated(linucb.empty(2), jnp.ones(2), 1.0, keep=0.0),
        lambda: linucb.route(jnp.ones(2), jnp.ones(2), jnp.ones(2), candidates=0),
    ],
)
def test_errors(call):
    with pytest.raises(ValueError, match="linucb|route"):
        call()
