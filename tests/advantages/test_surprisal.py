"""STARE's reweighting against its released outputs, worked numbers, and the loss it belongs to."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import recorded

from agentrl import advantages, losses
from agentrl.methods.stare import controlled
from agentrl.streams import PerTurn

DATA = recorded.arrays("token_loss")
MASK = DATA["in/mask"] > 0
LOGP, OLD, ADVANTAGE = (
    np.asarray(DATA[name], np.float32) for name in ("in/logp", "in/old_logp", "adv/grpo")
)
ROWS = np.arange(8, dtype=np.int32)


def stare(advantage, mask, logp, gain, loss, share, stream=None, turn=None):
    rows = np.arange(mask.shape[0], dtype=np.int32) if stream is None else stream
    turn = np.zeros(mask.shape, np.int32) if turn is None else turn
    full = jnp.full(mask.shape, 1.0)
    return advantages.stare(
        advantage, mask, rows, turn, logp, gain * full, loss * full, share=share
    )


def test_worked_example():
    logp = np.array([[-0.1, -2, -0.5, -3, -0.05, -1]], np.float32)
    advantage = np.array([[1, 1, 1, 1, -1, -1]], np.float32)
    mask = np.ones((1, 6), bool)
    weighted = stare(advantage, mask, logp, 1.1, 0.9, 0.25)
    np.testing.assert_allclose(weighted, [[1, 1, 1, 1.1, -1, -0.9]], rtol=1e-6)


@pytest.mark.parametrize("variant, low", [("O1", 1.0), ("C2", 0.9)])
def test_released_weights_and_loss(variant, low):
    recorded = DATA[f"stare/{variant}/weights_top0.2"]
    signed = np.where(MASK & (ADVANTAGE != 0), ADVANTAGE, 0)
    weighted = stare(signed, MASK, LOGP, 1.1, low, 0.2)
    chosen = MASK & (ADVANTAGE != 0)
    np.testing.assert_allclose(weighted[chosen] / signed[chosen], recorded[chosen], rtol=1e-6)

    def total(logp):
        return losses.aggregate(
            losses.clipped_surrogate(
                logp, OLD, weighted, MASK, clip_low=0.2, clip_high=0.28, dual_clip=10.0
            )[0],
            MASK,
            "token_mean",
        )

    value, slope = jax.value_and_grad(total)(LOGP)
    np.testing.assert_allclose(value, DATA[f"loss/stare_{variant}/value"], atol=1e-6)
    np.testing.assert_allclose(slope, DATA[f"loss/stare_{variant}/grad_logp"], atol=1e-6)


def test_controller_trace():
    weights = jnp.array([1.1, 0.9])
    for entropy, gate, gain, loss in DATA["stare/controller_trace[H,gate,W,M]"]:
        weights, opened = controlled(weights, entropy, target=0.3, step=0.01)
        np.testing.assert_allclose([*weights, opened], [gain, loss, gate], rtol=1e-6)
    still, opened = controlled(weights, jnp.float32(0.3), target=0.3, step=0.01)
    np.testing.assert_array_equal(still, weights)
    assert not opened


def test_weights_of_one_change_nothing_and_turns_are_spread():
    per_turn = np.array([[1.0, -2.0], [0.5, 3.0]], np.float32)
    stream = np.array([1, 0], np.int32)
    turn = np.array([[0, 0, 1], [1, -1, 0]], np.int32)
    mask = np.array([[True, True, True], [True, False, True]])
    logp = np.where(mask, -1.0, np.nan).astype(np.float32)
    per_turn = PerTurn(per_turn)
    spread = stare(per_turn, mask, logp, 1.0, 1.0, 0.5, stream, turn)
    np.testing.assert_array_equal(spread, [[0.5, 0.5, 3.0], [-2.0, 0.0, 1.0]])
    # One of the four good ones, the first among equals; the only bad one.
    heavier = stare(per_turn, mask, logp, 2.0, 0.5, 0.25, stream, turn)
    np.testing.assert_array_equal(heavier, [[1.0, 0.5, 3.0], [-1.0, 0.0, 1.0]])
