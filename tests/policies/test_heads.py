"""Heads: what is drawn has the density that is scored, and policies over arrays use them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import policies
from agentrl.policies.heads import CATEGORICAL, GAUSSIAN, Normal
from agentrl.streams import Rows

DRAWS = 20_000


def test_draws_of_vectors_have_their_density():
    """Moments, and shares of draws below bounds, within four standard errors."""
    normal = Normal(np.float32([0.5, -1.0]), np.float32([0.0, np.log(0.5)]))
    many = jax.tree.map(lambda x: np.broadcast_to(x, (DRAWS, 2)), normal)
    drawn = np.asarray(jax.jit(GAUSSIAN.draw)(many, None, jax.random.key(0)))
    log_prob = jax.jit(GAUSSIAN.log_prob)
    error = 4 / np.sqrt(DRAWS)
    std = np.exp(normal.log_std)
    np.testing.assert_allclose(drawn.mean(axis=0), normal.mean, atol=error * std.max())
    np.testing.assert_allclose(drawn.std(axis=0), std, rtol=error)
    assert abs(np.corrcoef(drawn.T)[0, 1]) < error
    # The integral of exp(log_prob) over a box, by sums on a grid, is the share of draws in it.
    grid = np.linspace(-1, 1, 201, dtype=np.float32)
    points = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1)
    at = jax.tree.map(lambda x: np.broadcast_to(x, points.shape), normal)
    density = np.exp(log_prob(at, None, points))
    share = (np.abs(drawn) < 1).all(axis=1).mean()
    np.testing.assert_allclose(density.mean() * 4, share, atol=error)
    # The entropy is the mean of what is scored.
    scored = np.asarray(log_prob(many, None, drawn))
    np.testing.assert_allclose(-scored.mean(), GAUSSIAN.entropy(normal, None), atol=2 * error)
    np.testing.assert_array_equal(GAUSSIAN.best(normal, None), normal.mean)


def test_draws_of_numbers_have_their_probabilities():
    logits = np.broadcast_to(np.float32([0.0, 1.0, 2.0]), (DRAWS, 3))
    legal = np.broadcast_to(np.array([True, False, True]), (DRAWS, 3))
    drawn = np.asarray(jax.jit(CATEGORICAL.draw)(logits, legal, jax.random.key(0)))
    chance = np.exp(jax.jit(CATEGORICAL.log_prob)(logits, legal, drawn))
    assert drawn.dtype == np.int32 and set(np.unique(drawn)) == {0, 2}
    for number in (0, 2):
        here = drawn == number
        np.testing.assert_allclose(chance[here], here.mean(), atol=4 / np.sqrt(DRAWS))
    np.testing.assert_array_equal(jax.jit(CATEGORICAL.best)(logits, legal), 2)
    assert jax.device_get(jax.jit(CATEGORICAL.kl)(logits, logits, legal))[0] == 0


@pytest.mark.parametrize("make", [policies.mlp, policies.gru])
def test_policies_of_vectors(make):
    policy = make((5,), None, 3, True, hidden=(8,), critic="shared", log_std=-1.0)
    init, step, divergence = map(jax.jit, (policy.init, policy.step, policy.divergence))
    params = init(jax.random.key(0))
    seen = np.random.default_rng(1).normal(size=(4, 6, 5)).astype(np.float32)
    never = np.zeros((4, 6), bool)
    outputs, value = jax.device_get(jax.jit(policy.unroll)(params, policy.memory(4), seen, never))
    assert outputs.mean.shape == (4, 6, 3) and value.shape == (4, 6)
    np.testing.assert_allclose(outputs.log_std, -1.0)
    np.testing.assert_allclose(outputs.mean, 0, atol=0.1)
    memory = policy.memory(4)
    for t in range(6):
        acted, _, memory = step(params, memory, seen[:, t])
        np.testing.assert_allclose(acted.mean, outputs.mean[:, t], atol=1e-5)
    # The divergence from itself is 0 and from others is not; only the policy itself has a gradient.
    rows = Rows(
        tokens=np.zeros((4, 6), np.int32),
        loss_mask=~never,
        stream=np.arange(4),
        turn=np.zeros((4, 6), np.int32),
        behaviour_logp=np.zeros((4, 6), np.float32),
        observation=seen,
        start=never,
        memory=policy.memory(4),
    )
    other = init(jax.random.key(2))
    assert np.abs(divergence(params, params, rows)).max() == 0
    assert np.asarray(divergence(params, other, rows)).min() > 0

    def total(params, reference):
        return jnp.sum(policy.divergence(params, reference, rows))

    own, others = jax.device_get(jax.jit(jax.grad(total, argnums=(0, 1)))(params, other))
    assert max(np.abs(x).max() for x in jax.tree.leaves(own)) > 0
    assert all(np.abs(x).max() == 0 for x in jax.tree.leaves(others))


def test_deviations_of_numbers_are_an_error():
    with pytest.raises(ValueError, match="log_std=-1.0 has no effect: .* actions are discrete"):
        policies.mlp((4,), None, 2, log_std=-1.0)
