"""EPO's loss against worked numbers, the recorded arrays and its own limits."""

import jax
import jax.numpy as jnp
import numpy as np
import recorded

from agentrl import losses
from agentrl.losses.smoothing import turn_mean

DATA = recorded.arrays("token_loss")
ENTROPY = np.array([[0.2, 1.0, 0.6], [1.4, 0.5, np.nan]], np.float32)
MASK = np.array([[True, True, True], [True, True, False]])
TURN = np.array([[0, 0, 0], [0, 0, -1]], np.int32)


def epo(entropy=ENTROPY, history=(1.2, 2.0), progress=0.2, turn=TURN, mask=MASK, **options):
    options = {"low": 0.8, "high": 1.2, "smoothing": 0.1} | options
    history = jnp.asarray(history)
    return losses.epo(entropy, history, jnp.float32(progress), turn, mask, **options)


def test_worked_example():
    # H_ref 0.6; L_H 0.775, L_s 0.026333, beta of step 30 of 150 is 1.670320, lambda 0.001.
    np.testing.assert_allclose(epo(smoothing=0.0).mean(), -0.775, rtol=1e-6)
    penalty = (epo() - epo(smoothing=0.0)).mean()
    np.testing.assert_allclose(penalty, 1.670320 * 0.026333, rtol=1e-4)
    np.testing.assert_allclose(0.001 * epo().mean(), -0.000731, atol=5e-7)


def test_recorded_penalties_and_beta():
    entropy = np.asarray(DATA["in/entropy"], np.float32)
    mask, recorded = DATA["in/mask"] > 0, DATA["epo/paper_penalty"]
    reference = DATA["epo/paper_penalty_k0.5_1.5_href"]
    options = {"low": 0.5, "high": 1.5, "smoothing": 1.0}
    # A position by itself shows its penalty; at the end of a long decay beta is 1.
    for i, j in zip(*np.nonzero(mask), strict=True):
        alone = (entropy[i : i + 1, j : j + 1], (*reference, 1.0), 1e6)
        value = epo(*alone, np.zeros((1, 1), np.int32), np.ones((1, 1), bool), **options)
        np.testing.assert_allclose(value + entropy[i, j], recorded[i, j], atol=2e-6)
    for k, beta in enumerate(DATA["epo/paper_beta_gamma1_K150_k0..150_step25"]):
        one, two = (epo(progress=p).sum() - epo(smoothing=0.0).sum() for p in (k / 6, 1e6))
        np.testing.assert_allclose(one / two, beta, rtol=1e-5)


def test_gradient_is_the_corridors():
    slope = jax.grad(lambda e: epo(e, progress=1e6, smoothing=1.0).sum())(ENTROPY)
    flat = jax.grad(lambda e: epo(e, smoothing=0.0).sum())(ENTROPY)
    # Below, above, above; above, inside: -1 or 1 over the row's positions.
    np.testing.assert_allclose(slope - flat, [[-1 / 3, 1 / 3, 0], [0.5, 0, 0]], atol=1e-6)
    to_history = jax.grad(lambda h: epo(history=h).sum())(jnp.array([1.2, 2.0]))
    np.testing.assert_array_equal(to_history, [0, 0])


def test_no_history_is_the_entropy_bonus_with_turns_counted_equally():
    np.testing.assert_array_equal(epo(history=(0.0, 0.0)), epo(smoothing=0.0))
    turn = np.array([[4, 4, 7], [9, 9, -1]], np.int32)
    np.testing.assert_allclose(
        -epo(history=(0.0, 0.0), turn=turn), [(0.6 + 0.6) / 2, 0.95], rtol=1e-6
    )
    gaps = turn_mean(
        np.float32([[1, 5, 3]]), np.array([[True, False, True]]), np.int32([[2, 1, 2]])
    )
    np.testing.assert_allclose(gaps, [2.0])
    np.testing.assert_array_equal(epo(mask=np.zeros((2, 3), bool)), [0, 0])
