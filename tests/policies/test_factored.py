"""One choice for each of several: a product of distributions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import policies
from agentrl.policies.heads import CATEGORICAL

CHOICES = (3, 2, 4)


def test_log_probabilities_and_entropies_add_up():
    policy = policies.factored((5,), None, 24, choices=CHOICES, hidden=(8,))
    inner = policies.mlp((5,), None, sum(CHOICES), hidden=(8,))
    params = policy.init(jax.random.key(0))
    # Heads begin almost uniform: make them differ.
    params = jax.tree.map(lambda x: x + 0.3 * jnp.sin(jnp.arange(x.size)).reshape(x.shape), params)
    seen = jax.random.normal(jax.random.key(1), (6, 5))
    joint, value, _ = policy.step(params, None, seen)
    heads, same, _ = inner.step(params, None, seen)
    np.testing.assert_array_equal(value, same)
    parts = jnp.split(heads, np.cumsum(CHOICES)[:-1], axis=-1)
    logs = [jax.nn.log_softmax(part) for part in parts]
    entropy = sum(-jnp.sum(jnp.exp(x) * x, axis=-1) for x in logs)
    np.testing.assert_allclose(CATEGORICAL.entropy(joint, None), entropy, rtol=1e-5)
    for action, choice in enumerate(np.ndindex(CHOICES)):
        expected = sum(log[:, c] for log, c in zip(logs, choice, strict=True))
        got = CATEGORICAL.log_prob(joint, None, jnp.full(6, action))
        np.testing.assert_allclose(got, expected, rtol=2e-5)
    rolled, _ = policy.unroll(params, None, seen[:, None], jnp.ones((6, 1), bool))
    np.testing.assert_allclose(rolled[:, 0], joint, rtol=1e-6)


@pytest.mark.parametrize("choices", [(), (3, 2), (6, 0, 4)])
def test_choices_must_make_the_actions(choices):
    with pytest.raises(ValueError, match="choices=.* with 24 actions"):
        policies.factored((5,), None, 24, choices=choices)
