"""HGPO: recorded values of its code, and its reductions."""

import jax
import numpy as np
import pytest
from dense_cases import VECTORS, case

from agentrl import advantages

CASES = sorted({key[:3] for key in VECTORS.files if "hgpo" in key and key.startswith("b")})
hgpo = jax.jit(
    advantages.hgpo, static_argnames=("history", "base", "normalize", "statistics", "singleton")
)
gigpo = jax.jit(advantages.gigpo, static_argnames="normalize")
grpo = jax.jit(advantages.grpo, static_argnames="normalize")
RELEASED = {"statistics": "turn", "singleton": "raw"}


@pytest.mark.parametrize("name", CASES)
def test_recorded_values(name):
    data = case(name)
    # One case has all choices, each of which compiles anew; the others have the longest.
    choices = [(0, False), (0, True), (2, False), (2, True)] if name == "b00" else [(2, True)]
    for k in (0, len(data["cfg_gamma"]) - 1):
        for history, base in choices:
            ours = hgpo(
                data["reward"],
                data["active"],
                data["group"],
                data["anchor"],
                gamma=float(data["cfg_gamma"][k]),
                history=history,
                base=base,
                normalize="std" if data["cfg_std"][k] else "mean",
                penalty=data["penalty"],
                **RELEASED,
            )
            expected = data[f"o_hgpo_h{history}_base{int(base)}"][k]
            np.testing.assert_allclose(ours, expected, atol=2e-5)


def streams(seed, gaps=True):
    rng = np.random.default_rng(seed)
    mask = rng.random((8, 6)) < (0.7 if gaps else 1.0)
    reward = rng.normal(size=(8, 6)).astype(np.float32)
    anchor = np.stack([np.zeros((8, 6)), rng.integers(0, 3, (8, 6))], -1).astype(np.uint32)
    return np.where(mask, reward, np.nan), mask, rng.integers(0, 2, 8), anchor


@pytest.mark.parametrize("seed", range(2))
def test_without_history_it_is_the_step_term_of_gigpo(seed):
    args = streams(seed)
    ours = hgpo(*args, history=0, normalize="mean")
    expected = np.asarray(gigpo(*args, normalize="mean")) - grpo(*args[:3], normalize="mean")
    # One group of weight 2: a share of 2 / (2 + epsilon).
    np.testing.assert_allclose(ours, expected, atol=2e-5)


def test_turns_in_which_the_agent_did_not_act_are_no_history():
    reward, mask, group, anchor = streams(3)
    packed = [np.zeros_like(x) for x in (np.nan_to_num(reward), mask, anchor)]
    for i in range(len(mask)):
        at = np.flatnonzero(mask[i])
        for whole, x in zip(packed, (reward, mask, anchor), strict=True):
            whole[i, : len(at)] = x[i, at]
    together = np.asarray(hgpo(packed[0], packed[1], group, packed[2]))
    apart = np.asarray(hgpo(reward, mask, group, anchor))
    np.testing.assert_allclose(apart[mask], together[packed[1]], atol=1e-6)


def test_a_longer_history_weighs_more():
    # Two turns share two anchors, a third one only the last; alpha 0 takes both groups alike.
    mask, group = np.ones((3, 2), bool), np.zeros(3, int)
    anchor = np.zeros((3, 2, 2), np.uint32)
    anchor[:, 0, 0], anchor[:, 1, 0] = [1, 1, 2], 5
    reward = np.float32([[0, 1], [0, 0], [0, 0.5]])
    options = {"history": 1, "normalize": "mean", "gamma": 1.0}
    for alpha, weight in ((1.0, (2 / 5, 3 / 5)), (0.0, (0.5, 0.5))):
        ours = hgpo(reward, mask, group, anchor, alpha=alpha, **options)
        # The first has 0.5 above the mean of three and above that of two; the third none of two.
        np.testing.assert_allclose(ours[0, 1], 0.5 * sum(weight), rtol=1e-5)
        np.testing.assert_allclose(ours[2, 1], 0.0, atol=1e-6)


def test_without_epsilon_what_has_no_group_is_zero():
    reward, mask, group, anchor = streams(0)
    ours = hgpo(reward, mask, group, anchor, epsilon=0.0)
    assert np.isfinite(ours).all()
    first = mask & (np.arange(mask.shape[1]) == 0)
    alone = hgpo(reward, first, np.arange(len(mask)), anchor, epsilon=0.0)
    np.testing.assert_array_equal(alone, 0.0)
