"""Soft policy iteration and ensembles: worked numbers, reductions, what is not read."""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import losses

DATA = np.load(pathlib.Path(__file__).parents[1] / "data" / "token_loss.npz")


def test_confidence_of_the_reference():
    deviation = jnp.float32([0.0, 0.05, 0.1, 0.5])
    expected = DATA["meee/weights_std[0,.05,.1,.5]_T20"]
    np.testing.assert_allclose(losses.confidence_weight(deviation), expected, atol=2e-5)
    np.testing.assert_array_equal(losses.confidence_weight(deviation, temperature=0.0), 1)


def test_deviation_by_hand_and_none_of_one_member():
    """Deviations of 1, 1.2, 0.8 and of 2, 2, 2.6 are 0.1633 and 0.2828, their mean 0.22307."""
    means = jnp.float32([[[1, 2]], [[1.2, 2]], [[0.8, 2.6]]])
    np.testing.assert_allclose(losses.ensemble_deviation(means), [0.223071], atol=2e-5)
    np.testing.assert_array_equal(losses.ensemble_deviation(means[:1]), 0)
    np.testing.assert_allclose(
        losses.ensemble_deviation(means[::-1]), losses.ensemble_deviation(means), rtol=1e-6
    )


def test_upper_confidence_by_hand():
    q, deviation = jnp.float32([1, 0.9, 0.7]), jnp.float32([0, 0.2, 0.35])
    np.testing.assert_allclose(losses.upper_confidence(q, deviation), [1, 1.1, 1.05], rtol=1e-6)
    assert int(jnp.argmax(losses.upper_confidence(q, deviation))) == 1
    np.testing.assert_array_equal(losses.upper_confidence(q, deviation, coefficient=0.0), q)


def test_the_best_of_candidates_by_hand_and_by_drawing():
    """Of three draws of (0.5, 0.3, 0.2) with scores 2, 1, 2: action 1 where all are, 0.027; the
    rest goes to 0 and 2 as 5 to 2."""
    logits, score = jnp.log(jnp.float32([0.5, 0.3, 0.2])), jnp.float32([2, 1, 2])
    chosen = jnp.exp(losses.chosen_logits(logits, score, 3))
    np.testing.assert_allclose(chosen, [0.695, 0.027, 0.278], atol=1e-6)
    draws = jax.random.categorical(jax.random.key(0), logits, shape=(40000, 3))
    best = jnp.take_along_axis(draws, jnp.argmax(score[draws], axis=1)[:, None], axis=1)[:, 0]
    np.testing.assert_allclose(jnp.bincount(best, length=3) / 40000, chosen, atol=0.01)
    # One candidate is the policy; of very many the best possible action is among them.
    np.testing.assert_allclose(losses.chosen_logits(logits, score, 1), logits, atol=1e-6)
    many = jnp.exp(losses.chosen_logits(logits, jnp.float32([0, 1, 2]), 200))
    np.testing.assert_allclose(many, [0, 0, 1], atol=1e-6)
    # What is illegal is never chosen.
    legal = jnp.where(jnp.array([True, True, False]), logits, -jnp.inf)
    assert jnp.isneginf(losses.chosen_logits(legal, jnp.float32([0, 1, 2]), 20)[2])


def test_soft_values_by_hand():
    logits, q = jnp.log(jnp.float32([0.25, 0.75])), jnp.float32([1.0, 2.0])
    entropy = -(0.25 * np.log(0.25) + 0.75 * np.log(0.75))
    got = losses.soft_value(logits, q, temperature=0.5)
    np.testing.assert_allclose(got, 1.75 + 0.5 * entropy, rtol=1e-6)
    np.testing.assert_allclose(losses.soft_value(logits, q, temperature=0.0), 1.75, rtol=1e-6)
    # Of the policy softmax(Q / alpha) it is the largest, alpha log sum exp(Q / alpha).
    best = losses.soft_value(q / 0.5, q, temperature=0.5)
    np.testing.assert_allclose(best, 0.5 * np.log(np.exp(2) + np.exp(4)), rtol=1e-6)
    assert best > got


def test_the_policy_goes_to_the_softmax_of_its_values():
    q = jnp.float32([[[1.0, 0.8, 0.0]]])
    slope = jax.jit(jax.grad(lambda x: losses.soft_policy_loss(x, q, temperature=0.2).sum()))
    np.testing.assert_allclose(slope(q / 0.2), 0, atol=1e-6)
    logits = jnp.zeros((1, 1, 3))
    for _ in range(300):
        logits = logits - 5.0 * slope(logits)
    np.testing.assert_allclose(jax.nn.softmax(logits), jax.nn.softmax(q / 0.2), atol=1e-3)
    # It is alpha KL(pi || softmax(Q / alpha)) but for a constant.
    at = lambda x: losses.soft_policy_loss(x, q, temperature=0.2)  # noqa: E731
    other = jnp.float32([[[0.3, -1.0, 0.4]]])
    kl = losses.categorical_kl(other, q / 0.2)
    np.testing.assert_allclose(at(other) - at(q / 0.2), 0.2 * kl, atol=1e-6)


def test_a_policy_that_gives_the_best_action_no_chance_is_taught_it():
    """With pi = (1, 0) and Q = (0, 1) one gradient vanishes, and the other is pi less softmax."""
    logits, q = jnp.float32([[[20.0, -20.0]]]), jnp.float32([[[0.0, 1.0]]])
    slope = {
        f: jax.grad(lambda x, f=f: f(x, q, temperature=0.1).sum())(logits)[0, 0]
        for f in (losses.soft_policy_loss, losses.boltzmann_imitation)
    }
    np.testing.assert_allclose(slope[losses.soft_policy_loss], 0, atol=1e-6)
    np.testing.assert_allclose(slope[losses.boltzmann_imitation], [1, -1], atol=1e-3)
    both = losses.boltzmann_imitation(q / 0.1, q, temperature=0.1)
    np.testing.assert_allclose(both, losses.categorical_entropy(q / 0.1), atol=1e-6)
    legal = jnp.float32([[[20.0, -jnp.inf]]])
    value, slope = jax.value_and_grad(lambda x: losses.boltzmann_imitation(x, q).sum())(legal)
    assert value == 0 and np.isfinite(slope).all()


def test_illegal_actions_and_padding_are_not_read():
    legal = jnp.array([[[True, False, True], [False, True, True]]])
    logits = jnp.where(legal, jnp.float32([0.1, 0.2, 0.3]), -jnp.inf)
    q = jnp.broadcast_to(jnp.float32([1, 5, 2]), logits.shape)
    mask = jnp.array([[True, False]])

    def total(logits, q):
        return losses.soft_policy_loss(logits, q, mask).sum()

    value, slope = jax.value_and_grad(total)(logits, q)
    p = np.exp([0.1, 0.3]) / np.exp([0.1, 0.3]).sum()
    np.testing.assert_allclose(value, p @ (0.1 * np.log(p) - [1, 2]), rtol=1e-5)
    assert np.isfinite(slope).all() and not slope[0, 1].any() and slope[0, 0, 1] == 0
    again = jax.value_and_grad(total)(logits.at[0, 1].set(jnp.nan), q.at[0, 1].set(jnp.nan))
    np.testing.assert_array_equal(again[0], value)
    np.testing.assert_array_equal(again[1], slope)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: losses.confidence_weight(jnp.ones(2), temperature=-1.0), "temperature=-1"),
        (lambda: losses.chosen_logits(jnp.ones(2), jnp.ones(2), 0), "candidates=0"),
        (lambda: losses.chosen_logits(jnp.ones(2), jnp.ones(3), 2), "shapes"),
        (lambda: losses.upper_confidence(jnp.ones(2), jnp.ones(3)), "shapes"),
        (lambda: losses.soft_value(jnp.ones(2), jnp.ones(2), temperature=-1.0), "temperature=-1"),
    ],
)
def test_refusals(call, match):
    with pytest.raises(ValueError, match=match):
        call()
