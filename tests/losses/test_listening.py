"""The listening loss: cross-entropy of the true answer, focal or not, nothing behind the mask."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import losses

LOGITS = np.log(np.float32([[[0.5, 0.25, 0.25], [0.1, 0.1, 0.8], [0.2, 0.2, 0.6]]]))


def test_worked_numbers():
    mask = np.array([[True, True, False]])
    answer = np.array([[0, 2, 99]])
    logits = np.where(mask[..., None], LOGITS, np.nan)
    ours, metrics = losses.listening_loss(logits, answer, mask)
    np.testing.assert_allclose(ours, [[-np.log(0.5), -np.log(0.8), 0]], atol=1e-6)
    assert metrics["belief_accuracy"].tolist() == [[True, True, False]]
    mean = losses.aggregate(ours, mask, "token_mean")
    np.testing.assert_allclose(mean, -0.5 * np.log(0.4), atol=1e-6)
    ours, _ = losses.listening_loss(logits, answer, mask, focus=2.0)
    np.testing.assert_allclose(ours, [[-0.25 * np.log(0.5), -0.04 * np.log(0.8), 0]], atol=1e-6)


@pytest.mark.parametrize("focus", [0.0, 0.5, 3.0])
def test_gradient_goes_through_the_weight_and_stays_finite(focus):
    def total(logits, mask):
        answer = jnp.zeros(mask.shape, int)
        return losses.listening_loss(logits, answer, mask, focus=focus)[0].sum()

    def plain(logits):
        p = jax.nn.softmax(logits)[..., 0]
        return (-((1 - p) ** focus) * jnp.log(p)).sum()

    every = np.ones((1, 3), bool)
    np.testing.assert_allclose(jax.grad(total)(LOGITS, every), jax.grad(plain)(LOGITS), atol=1e-6)
    # A certain answer, and a question that is none.
    sure = np.float32([[[200, 0, 0], [np.nan] * 3]])
    np.testing.assert_array_equal(jax.grad(total)(sure, np.array([[True, False]])), 0)


def test_in_words_it_is_of_the_answers_tokens():
    logp = np.log(np.float32([[0.5, 0.8, 0.1]]))
    mask = np.array([[True, True, False]])
    ours, metrics = losses.listening_loss_in_words(np.where(mask, logp, np.nan), mask, focus=2.0)
    np.testing.assert_allclose(ours, [[-0.25 * np.log(0.5), -0.04 * np.log(0.8), 0]], atol=1e-6)
    np.testing.assert_allclose(metrics["belief"], [[0.5, 0.8, 0]], atol=1e-6)
