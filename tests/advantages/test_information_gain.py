"""IGPO against the worked example, and its relation to GRPO."""

import jax
import numpy as np
import recorded
from programs import fetched

from agentrl import advantages
from agentrl.methods import igpo as method

# From the formulas of the paper, three streams of three turns; origin: tests/data/igpo.npz.
DATA = recorded.arrays("igpo")
gain_of = fetched(method.gain_of)
igpo = jax.jit(advantages.igpo, static_argnames="gamma")
MASK, GROUP = np.ones((3, 3), bool), np.zeros(3, np.int32)
REWARD = np.zeros((3, 3), np.float32)
REWARD[:, -1] = DATA["igpo_in_F1"]
BELIEF = np.asarray(DATA["igpo_in_logp"], np.float32)


def test_gains_are_the_recorded_ones():
    gain = gain_of(BELIEF, MASK, MASK)
    np.testing.assert_allclose(gain[:, :2], DATA["igpo_ig_logprob"], atol=1e-6)
    prob = gain_of(np.exp(BELIEF), MASK, MASK)
    np.testing.assert_allclose(prob[:, :2], DATA["igpo_ig_prob"], atol=1e-6)
    assert (gain[:, 2] == 0).all()


def test_gains_telescope_over_gaps_and_skip_what_is_unknown():
    # Without jit, which may hide that a NaN is read.
    mask = np.array([[True, False, True, True, False]])
    belief = np.float32([[-3, np.nan, -1, -0.5, np.nan]])
    np.testing.assert_allclose(method.gain_of(belief, mask, mask), [[2, 0, 0.5, 0, 0]])
    np.testing.assert_allclose(method.gain_of(belief, mask, mask, 1.0), [[1, 0, 0.5, 0, 0]])
    lost = np.where([[False, False, True, False, False]], np.nan, belief)
    np.testing.assert_array_equal(method.gain_of(lost, mask, mask), np.zeros((1, 5)))


def test_advantages_are_the_recorded_ones():
    gain = gain_of(BELIEF, MASK, MASK)
    advantage = igpo(REWARD, MASK, GROUP, gain)
    np.testing.assert_allclose(advantage, DATA["igpo_Rtilde_gamma1"], atol=2e-6)
    now = igpo(REWARD, MASK, GROUP, gain, gamma=0.0)
    np.testing.assert_allclose(now, DATA["igpo_rtilde"], atol=2e-6)


def test_without_gains_it_is_grpo_and_one_turn_has_the_outcome_alone():
    zero = np.zeros((3, 3), np.float32)
    np.testing.assert_allclose(
        igpo(REWARD, MASK, GROUP, zero),
        jax.jit(advantages.grpo)(REWARD, MASK, GROUP),
        atol=1e-6,
    )
    one = np.full((3, 1), 7.0, np.float32)
    np.testing.assert_allclose(
        np.asarray(igpo(REWARD[:, -1:], MASK[:, :1], GROUP, one))[:, 0],
        [0.999998, -0.999998, 0],
        atol=1e-6,
    )
