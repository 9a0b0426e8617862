"""Actor-critics: shapes, memory, legality, and options that are told when wrong."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import policies
from agentrl.policies.actor_critic import orthogonal
from agentrl.policies.heads import mask_logits

KINDS = {
    "mlp on codes": (policies.mlp, (4, 4), 6),
    "mlp on features": (policies.mlp, (7,), None),
    "cnn on codes": (policies.cnn, (5, 6), 4),
    "cnn on channels": (policies.cnn, (5, 6, 3), None),
    "gru on features": (policies.gru, (7,), None),
}


def observations(key, batch, shape, num_codes):
    if num_codes is None:
        return jax.random.normal(key, (*batch, *shape))
    return jax.random.randint(key, (*batch, *shape), 0, num_codes).astype(jnp.uint8)


@pytest.mark.parametrize("kind", KINDS)
def test_unroll_equals_steps(kind):
    """The learner's pass over rows is the acting step, position by position."""
    make, shape, num_codes = KINDS[kind]
    policy = make(shape, num_codes, 3, critic="shared", hidden=(8,))
    params = policy.init(jax.random.key(0))
    seen = observations(jax.random.key(1), (4, 6), shape, num_codes)
    start = jnp.zeros((4, 6), bool).at[1, 3].set(True)
    logits, value = policy.unroll(params, policy.memory(4), seen, start)
    assert logits.shape == (4, 6, 3) and value.shape == (4, 6)
    memory = policy.memory(4)
    for t in range(6):
        if memory is not None:
            memory = jnp.where(start[:, t, None], 0.0, memory)
        step_logits, step_value, memory = policy.step(params, memory, seen[:, t])
        np.testing.assert_allclose(step_logits, logits[:, t], atol=1e-5)
        np.testing.assert_allclose(step_value, value[:, t], atol=1e-5)


def test_memory_matters_and_is_cleared():
    policy = policies.gru((3,), None, 2)
    params = policy.init(jax.random.key(0))
    seen = jax.random.normal(jax.random.key(1), (1, 5, 3))
    other = seen.at[:, 0].add(1.0)
    never, at_two = jnp.zeros((1, 5), bool), jnp.zeros((1, 5), bool).at[0, 2].set(True)
    a, b = (policy.unroll(params, policy.memory(1), x, never)[0] for x in (seen, other))
    assert np.abs(a[0, 4] - b[0, 4]).max() > 0
    a, b = (policy.unroll(params, policy.memory(1), x, at_two)[0] for x in (seen, other))
    np.testing.assert_array_equal(a[0, 2:], b[0, 2:])


@pytest.mark.parametrize("critic", ["none", "shared", "separate"])
def test_critic(critic):
    policy = policies.mlp((4,), None, 2, critic=critic)
    params = policy.init(jax.random.key(0))
    _, value, _ = policy.step(params, None, jnp.ones((3, 4)))
    assert policy.has_critic == (critic != "none")
    assert bool(jnp.any(value != 0)) == policy.has_critic
    count = {"none": 4 * 64 + 64 + 64 * 64 + 64 + 2 * 64 + 2}
    count["shared"] = count["none"] + 65
    count["separate"] = count["none"] + 65 + 4 * 64 + 64 + 64 * 64 + 64
    assert policies.parameter_count(params) == count[critic]


def test_initial_policy_is_nearly_uniform():
    policy = policies.mlp((4,), None, 5, critic="none")
    logits, _, _ = policy.step(policy.init(jax.random.key(0)), None, jnp.ones((1, 4)))
    np.testing.assert_allclose(jax.nn.softmax(logits), 0.2, atol=0.02)


def test_illegal_logits_are_minus_infinity():
    logits = mask_logits(jnp.zeros((1, 3)), jnp.array([[True, False, True]]))
    np.testing.assert_array_equal(logits, [[0, -np.inf, 0]])
    np.testing.assert_array_equal(mask_logits(jnp.ones((1, 3)), None), 1)


@pytest.mark.parametrize(
    "make, shape, options, message",
    [
        (policies.mlp, (4,), {"critic": "both"}, "critic='both': expected one of none"),
        (policies.mlp, (4,), {"activation": "gelu"}, "activation='gelu': expected one of tanh"),
        (policies.cnn, (4,), {}, "'cnn' needs a grid observation of rank 3"),
        (policies.gru, (4,), {"critic": "separate"}, "use critic='shared' or critic='none'"),
    ],
)
def test_wrong_options(make, shape, options, message):
    with pytest.raises(ValueError, match=message):
        make(shape, None, 2, **options)


@pytest.mark.parametrize("shape", [(8, 8), (20, 6), (6, 20), (3, 3, 4, 10)])
def test_orthogonal(shape):
    kernels = jax.vmap(lambda key: orthogonal(2.0)(key, shape))(
        jax.random.split(jax.random.key(0), 3)
    )
    for kernel in np.asarray(kernels).reshape(3, -1, shape[-1]):
        tall = kernel if kernel.shape[0] >= kernel.shape[1] else kernel.T
        np.testing.assert_allclose(tall.T @ tall, 4 * np.eye(tall.shape[1]), atol=1e-5)
    assert np.abs(kernels[0] - kernels[1]).max() > 0.1
