"""DPO, its relatives and KTO against worked numbers, and what they must not read.

The published numbers are those of formulas, computed in float64 apart from this project: one pair
of StepORLM's with outcomes that differ and one with equal ones, PAPRIKA's pair, two rows of KTO's.
"""

import functools

import jax
import numpy as np
import pytest

from agentrl import losses

# Log-ratios of a winner's three tokens and of a loser's two; NaN where nothing is trained.
RATIO = np.array([[0.3, 0.2, 0.4], [0.1, np.nan, -0.4]], np.float32)
REFERENCE = np.array([[-1.0, -2.0, -3.0], [-1.5, np.nan, -0.5]], np.float32)
MASK = np.isfinite(RATIO)
PUBLISHED = {
    "wdpo": [0.55435524, 0.13858881],
    "paprika_rpo": 1.468279434928947,
    "mkto_kl": 0.075,
    "mkto_loss_desirable": 0.47938669028555136,
    "mkto_loss_undesirable": 0.49062609847833927,
}


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


def test_weighted_dpo_worked_example():
    # log pi of -30 and -33 at beta .1: outcomes that differ, and shares of .75 and .5.
    logp = np.array([[-30.0], [-33.0], [-30.0], [-33.0]], np.float32)
    weight = np.array([[1.0], [1.0], [0.25], [0.25]], np.float32)
    reference = np.full_like(logp, np.nan)
    loss = losses.weighted_dpo(logp, reference, weight, use_reference=False)
    np.testing.assert_allclose(loss, PUBLISHED["wdpo"], rtol=2e-5)
    by = {"reference_logp": REFERENCE, "mask": MASK, "beta": 0.3}
    one = losses.weighted_dpo(REFERENCE + RATIO, pair_weight=np.ones((2, 3)), **by)
    np.testing.assert_array_equal(one, losses.dpo(REFERENCE + RATIO, **by))
    # What a pair weighs is data.
    slope = jax.grad(lambda w: losses.weighted_dpo(RATIO, REFERENCE, w, MASK).sum())(REFERENCE)
    assert not np.nan_to_num(slope).any()


def test_rpo_worked_example():
    # The pair of DPO's example, whose chosen tokens have -log pi of 1.2, .8 and .5.
    logp = np.array([[-1.2, -0.8, -0.5], [0.1, np.nan, -0.4]], np.float32)
    reference = np.where(np.arange(2)[:, None] == 0, logp - RATIO, 0).astype(np.float32)
    loss = losses.rpo(logp, reference, MASK)
    np.testing.assert_allclose(loss, [PUBLISHED["paprika_rpo"]], rtol=2e-5)
    # Without the likelihood it is DPO; with it the chosen row rises even where DPO is content.
    none = losses.rpo(logp, reference, MASK, alpha=0.0)
    np.testing.assert_array_equal(none, losses.dpo(logp, reference, MASK))
    slope = jax.grad(lambda x: losses.rpo(x, x, MASK, alpha=3.0).sum())(logp)
    np.testing.assert_allclose(slope[0], -0.05 - 1.0, rtol=1e-5)
    np.testing.assert_allclose(slope[1], [0.05, 0, 0.05], rtol=1e-5)


# A good row and a bad one, each with its mismatched row: z0 is .075.
SAMPLED = np.array([[0.9], [0.2], [-0.3], [-0.05]], np.float32)
GOOD = np.array([[True], [False], [False], [True]])


def test_kto_worked_example():
    zero = np.zeros_like(SAMPLED)
    loss, metrics = losses.kto(SAMPLED, zero, GOOD)
    expected = [PUBLISHED["mkto_loss_desirable"], PUBLISHED["mkto_loss_undesirable"]]
    np.testing.assert_allclose(loss, expected, rtol=2e-5)
    np.testing.assert_allclose(metrics["kto_baseline"], PUBLISHED["mkto_kl"], rtol=2e-5)
    low = SAMPLED - np.array([[0.0], [1.0], [0.0], [1.0]], np.float32)
    weighted, _ = losses.kto(low, zero, GOOD, desirable_weight=2.0, undesirable_weight=0.5)
    # z0 is at least 0.
    np.testing.assert_allclose(
        weighted, [2 / (1 + np.exp(0.09)), 0.5 / (1 + np.exp(0.03))], rtol=1e-5
    )


def test_kto_moves_sampled_rows_alone_and_can_be_balanced():
    zero = np.zeros((8, 1), np.float32)
    good = np.repeat(np.array([True, False, False, False]), 2)[:, None]

    def loss(logp, **options):
        return losses.kto(logp, zero, good, **options)[0].mean()

    slope = jax.grad(loss)(zero)[:, 0]
    # The mismatched rows and the reference point have no gradient; beta / 4 for each of four rows.
    np.testing.assert_allclose(slope, [-0.025 / 4, 0, 0.025 / 4, 0, 0.025 / 4, 0, 0.025 / 4, 0])
    slope = jax.grad(functools.partial(loss, balanced=True))(zero)[:, 0]
    np.testing.assert_allclose(slope[0], -0.025 / 2, rtol=1e-6)
    np.testing.assert_allclose(slope[2::2], 0.025 / 6, rtol=1e-6)
    # A pair that has no position counts for nothing, in z0 and in the shares.
    mask = np.ones((8, 1), bool)
    mask[6:] = False
    apart, told = losses.kto(np.where(mask, 0, np.nan), zero, good, mask, balanced=True)
    np.testing.assert_allclose(apart[:3], [0.5 * 3 / 2, 0.5 * 3 / 4, 0.5 * 3 / 4], rtol=1e-6)
    assert not told["kto_baseline"].any()


@pytest.mark.parametrize("name", ["dpo", "rpo", "weighted_dpo", "kto"])
def test_odd_rows_are_refused(name):
    more = [np.zeros((3, 2))] if name in ("kto", "weighted_dpo") else []
    with pytest.raises(ValueError, match=f"^{name}: 3 rows; expected an even number|^dpo: 3 rows"):
        getattr(losses, name)(np.zeros((3, 2)), np.zeros((3, 2)), *more)


def test_matryoshkas_worked_pair():
    """A chosen reply of -5 (reference -6) and a rejected one of -7 (-6.5): DPO, smoothed, SimPO."""
    logp, reference = np.array([[-5.0], [-7.0]]), np.array([[-6.0], [-6.5]])
    np.testing.assert_allclose(losses.dpo(logp, reference), [0.620957], atol=1e-6)
    np.testing.assert_allclose(losses.dpo(logp, reference, smoothing=0.1), [0.635957], atol=1e-6)
    # The mean over the tokens that were written, whatever the others hold.
    logp = np.array([[-4.0, -6.0, np.nan], [-7.0, np.nan, np.nan]])
    loss = losses.simpo(logp, np.isfinite(logp), beta=0.1, margin=0.55)
    np.testing.assert_allclose(loss, [0.623273], atol=1e-6)
