"""DPO and KTO against worked numbers, and what they must not read."""

import jax
import numpy as np
import pytest

from agentrl import losses

# Log-ratios of a winner's three tokens and of a loser's two; NaN where nothing is trained.
RATIO = np.array([[0.3, 0.2, 0.4], [0.1, np.nan, -0.4]], np.float32)
REFERENCE = np.array([[-1.0, -2.0, -3.0], [-1.5, np.nan, -0.5]], np.float32)
MASK = np.isfinite(RATIO)


def test_dpo_worked_example():
    loss = losses.dpo(REFERENCE + RATIO, REFERENCE, MASK, beta=0.1)
    np.testing.assert_allclose(loss, [0.634946], rtol=1e-5)
    np.testing.assert_allclose(-np.log(1 / (1 + np.exp(-0.12))), loss[0], rtol=1e-6)


def test_dpo_at_the_reference_is_log_two_with_slopes_of_half_beta():
    def loss(logp):
        return losses.dpo(logp, REFERENCE, MASK, beta=0.3).sum()

    np.testing.assert_allclose(loss(REFERENCE), np.log(2), rtol=1e-6)
    np.testing.assert_allclose(jax.grad(loss)(REFERENCE), [[-0.15] * 3, [0.15, 0, 0.15]], rtol=1e-6)


def test_dpo_swapped_pairs_sum_to_the_margin():
    logp = np.concatenate([REFERENCE + RATIO, (REFERENCE + RATIO)[::-1]])
    reference = np.concatenate([REFERENCE, REFERENCE[::-1]])
    mask = np.concatenate([MASK, MASK[::-1]])
    one, other = losses.dpo(logp, reference, mask)
    np.testing.assert_allclose(other - one, 0.12, rtol=1e-5)
    # What both rows of a pair add to sampler and reference cancels.
    np.testing.assert_allclose(losses.dpo(logp + 7, reference + 7, mask), [one, other], rtol=1e-4)


def test_kto_worked_example():
    # Mismatched log-ratios 0.2 and -0.05: z0 is 0.075.
    logp, zero = np.array([[0.9], [-0.3]], np.float32), np.zeros((2, 1), np.float32)
    good = np.array([[True], [False]])
    loss = losses.kto(logp, zero, good, np.float32(0.075))
    np.testing.assert_allclose(loss, [0.479387, 0.490626], rtol=1e-5)
    weighted = losses.kto(
        logp, zero, good, np.float32(-1), desirable_weight=2.0, undesirable_weight=0.5
    )
    # z0 is at least 0.
    np.testing.assert_allclose(
        weighted, [2 / (1 + np.exp(0.09)), 0.5 / (1 + np.exp(0.03))], rtol=1e-5
    )


def test_odd_rows_are_refused():
    with pytest.raises(ValueError, match="dpo: 3 rows; expected an even number"):
        losses.dpo(np.zeros((3, 2)), np.zeros((3, 2)))
