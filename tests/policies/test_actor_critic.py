"""Actor-critics: shapes, memory, legality, and options that are told when wrong."""

import jax
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


def observations(batch, shape, num_codes):
    rng = np.random.default_rng(1)
    if num_codes is None:
        return rng.normal(size=(*batch, *shape)).astype(np.float32)
    return rng.integers(0, num_codes, (*batch, *shape)).astype(np.uint8)


def init(policy):
    return jax.jit(policy.init)(jax.random.key(0))


@pytest.mark.parametrize("kind", KINDS)
def test_unroll_equals_steps(kind):
    """The learner's pass over rows is the acting step, position by position."""
    make, shape, num_codes = KINDS[kind]
    policy = make(shape, num_codes, 3, critic="shared", hidden=(8,))
    params = init(policy)
    seen = observations((4, 6), shape, num_codes)
    start = np.zeros((4, 6), bool)
    start[1, 3] = True
    logits, value = jax.jit(policy.unroll)(params, policy.memory(4), seen, start)
    assert logits.shape == (4, 6, 3) and value.shape == (4, 6)
    memory, step = policy.memory(4), jax.jit(policy.step)
    for t in range(6):
        if memory is not None:
            memory = np.where(start[:, t, None], np.float32(0), memory)
        step_logits, step_value, memory = step(params, memory, seen[:, t])
        np.testing.assert_allclose(step_logits, logits[:, t], atol=1e-5)
        np.testing.assert_allclose(step_value, value[:, t], atol=1e-5)


def test_memory_matters_and_is_cleared():
    policy = policies.gru((3,), None, 2)
    params = init(policy)
    seen = observations((1, 5), (3,), None)
    other = seen + (np.arange(5) == 0)[:, None].astype(np.float32)
    never = np.zeros((1, 5), bool)
    at_two = never | (np.arange(5) == 2)
    unroll = jax.jit(policy.unroll)
    a, b = (np.asarray(unroll(params, policy.memory(1), x, never)[0]) for x in (seen, other))
    assert np.abs(a[0, 4] - b[0, 4]).max() > 0
    a, b = (np.asarray(unroll(params, policy.memory(1), x, at_two)[0]) for x in (seen, other))
    np.testing.assert_array_equal(a[0, 2:], b[0, 2:])


@pytest.mark.parametrize("critic", ["none", "shared", "separate"])
def test_critic(critic):
    policy = policies.mlp((4,), None, 2, critic=critic)
    params = init(policy)
    _, value, _ = jax.jit(policy.step)(params, None, np.ones((3, 4), np.float32))
    assert policy.has_critic == (critic != "none")
    assert bool(np.any(np.asarray(value) != 0)) == policy.has_critic
    count = {"none": 4 * 64 + 64 + 64 * 64 + 64 + 2 * 64 + 2}
    count["shared"] = count["none"] + 65
    count["separate"] = count["none"] + 65 + 4 * 64 + 64 + 64 * 64 + 64
    assert policies.parameter_count(params) == count[critic]


def test_initial_policy_is_nearly_uniform():
    policy = policies.mlp((4,), None, 5, critic="none")
    logits, _, _ = jax.jit(policy.step)(init(policy), None, np.ones((1, 4), np.float32))
    np.testing.assert_allclose(jax.nn.softmax(logits), 0.2, atol=0.02)


def test_illegal_logits_are_minus_infinity():
    logits = mask_logits(np.zeros((1, 3), np.float32), np.array([[True, False, True]]))
    np.testing.assert_array_equal(logits, [[0, -np.inf, 0]])
    np.testing.assert_array_equal(mask_logits(np.ones((1, 3)), None), 1)


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
    draw = jax.jit(jax.vmap(lambda key: orthogonal(2.0)(key, shape)))
    kernels = np.asarray(draw(jax.random.split(jax.random.key(0), 3)))
    for kernel in kernels.reshape(3, -1, shape[-1]):
        tall = kernel if kernel.shape[0] >= kernel.shape[1] else kernel.T
        np.testing.assert_allclose(tall.T @ tall, 4 * np.eye(tall.shape[1]), atol=1e-5)
    assert np.abs(kernels[0] - kernels[1]).max() > 0.1
