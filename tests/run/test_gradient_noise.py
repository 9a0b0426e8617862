"""Noise of early gradients, where it can be worked out."""

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
    params = jnp.array([0.0, 1.0, 0.5])
    action = jnp.array([[0, 2], [1, 1]])  # [T, B]
    weight = jnp.array([[2.0, -1.0], [0.0, 0.5]])  # of the streams 0, 1 in turn
    rows = Rows(
        tokens=action.reshape(4, 1),
        loss_mask=jnp.ones((4, 1), bool),
        stream=jnp.tile(jnp.arange(2), 2),
        turn=jnp.repeat(jnp.arange(2), 2)[:, None],
        behaviour_logp=jnp.zeros((4, 1)),
    )
    of_rows = weight.reshape(4, 1)
    found = gradient_noise.episode_gradients(policy, params, rows, of_rows, streams=3, most=2)
    slope = np.eye(3)[np.asarray(action)] - np.asarray(jax.nn.softmax(params))
    expected = (slope * weight[..., None]).sum(axis=0)
    np.testing.assert_allclose(found, [*expected, [0, 0, 0]], atol=1e-6)
    # Rows in any order.
    order = jnp.array([2, 0, 3, 1])
    rows, of_rows = jax.tree.map(lambda x: x[order], (rows, of_rows))
    found = gradient_noise.episode_gradients(policy, params, rows, of_rows, streams=2, most=2)
    np.testing.assert_allclose(found, expected, atol=1e-6)
