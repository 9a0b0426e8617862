"""Noise of early gradients, where it can be worked out."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.policies import Policy
from agentrl.run import gradient_noise
from agentrl.streams import Rows


def test_noise_and_signal_by_hand():
    # Mean (2, 0); squared distances 1, 1, 4, 4: noise 10 / 3, signal 4 - 10 / 12.
    gradients = jnp.array([[1.0, 0], [3, 0], [2, 2], [2, -2]])
    noise, signal = gradient_noise.noise_and_signal(gradients, jnp.ones(4, bool))
    np.testing.assert_allclose([noise, signal], [10 / 3, 4 - 10 / 12], rtol=1e-6)
    # What is left out may be anything.
    more = jnp.concatenate([gradients, jnp.full((3, 2), jnp.nan)])
    again = gradient_noise.noise_and_signal(more, jnp.arange(7) < 4)
    np.testing.assert_allclose(again, [noise, signal], rtol=1e-6)


def test_each_episode_has_its_own_gradient():
    """Logits that are the parameters: the gradient of log pi(a) is one-hot(a) - pi."""

    def unroll(params, memory, observation, start, role):
        shape = (*start.shape, 3)
        return jnp.broadcast_to(params, shape), jnp.zeros(start.shape)

    policy = Policy(None, lambda batch: None, None, unroll, False)
    params = np.array([0.0, 1.0, 0.5], np.float32)
    action = np.array([[0, 2], [1, 1]], np.int32)  # [T, B]
    weight = np.array([[2.0, -1.0], [0.0, 0.5]], np.float32)  # of the streams 0, 1 in turn
    rows = Rows(
        tokens=action.reshape(4, 1),
        loss_mask=np.ones((4, 1), bool),
        stream=np.tile(np.arange(2, dtype=np.int32), 2),
        turn=np.repeat(np.arange(2, dtype=np.int32), 2)[:, None],
        behaviour_logp=np.zeros((4, 1), np.float32),
    )
    of_rows = weight.reshape(4, 1)
    gradients = jax.jit(
        functools.partial(gradient_noise.episode_gradients, policy, most=2),
        static_argnames="streams",
    )
    found = gradients(params, rows, of_rows, streams=3)
    slope = np.eye(3)[action] - np.exp(params) / np.exp(params).sum()
    expected = (slope * weight[..., None]).sum(axis=0)
    np.testing.assert_allclose(found, [*expected, [0, 0, 0]], atol=1e-6)
    # Rows in any order.
    order = np.array([2, 0, 3, 1])
    rows, of_rows = jax.tree.map(lambda x: x[order], (rows, of_rows))
    found = gradients(params, rows, of_rows, streams=2)
    np.testing.assert_allclose(found, expected, atol=1e-6)
