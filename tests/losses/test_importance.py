"""Truncated importance weights against verl's rollout correction."""

import jax
import numpy as np
import pytest
import recorded

from agentrl import losses

DATA = recorded.arrays("token_loss")
MASK = DATA["in/mask"].astype(bool)
OLD, BEHAVIOUR = (np.asarray(DATA[f"in/{k}"], np.float32) for k in ("old_logp", "rollout_logp"))
truncated_importance_weight = jax.jit(
    losses.truncated_importance_weight, static_argnames=("level", "normalize")
)


@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("normalize", [False, True])
def test_agrees_with_verl(level, normalize):
    ours = truncated_importance_weight(
        OLD, BEHAVIOUR, MASK, cap=1.2, level=level, normalize=normalize
    )
    np.testing.assert_allclose(ours, DATA[f"tis/{level}_thr1.2_bn{int(normalize)}"], atol=2e-6)


def test_worked_numbers():
    difference, mask = np.float32([[0.2, -0.1, 1.5]]), np.ones((1, 3), bool)
    weight = truncated_importance_weight(difference, np.zeros((1, 3)), mask, cap=2.0)
    np.testing.assert_allclose(weight, [[np.exp(0.2), np.exp(-0.1), 2.0]], rtol=1e-6)
    # exp(0.2 - 0.1 + 1.5) = exp(1.6) = 4.95, above the cap of 2 and below one of 10
    for cap, expected in ((2.0, 2.0), (10.0, np.exp(1.6))):
        weight = truncated_importance_weight(
            difference, np.zeros((1, 3)), mask, cap=cap, level="sequence"
        )
        np.testing.assert_allclose(weight, np.full((1, 3), expected), rtol=1e-6)


@pytest.mark.parametrize("level", ["token", "sequence"])
def test_equal_policies_change_nothing(level):
    for normalize in (False, True):
        weight = truncated_importance_weight(
            OLD, OLD, MASK, cap=1.0, level=level, normalize=normalize
        )
        np.testing.assert_array_equal(weight, MASK.astype(np.float32))


@pytest.mark.parametrize("level", ["token", "sequence"])
def test_nothing_behind_the_mask_is_read(level):
    for poison in (np.nan, 1e9, -np.inf):
        poisoned = [np.where(MASK, x, poison) for x in (OLD, BEHAVIOUR)]
        options = {"cap": 1.2, "level": level, "normalize": True}
        np.testing.assert_array_equal(
            truncated_importance_weight(*poisoned, MASK, **options),
            truncated_importance_weight(OLD, BEHAVIOUR, MASK, **options),
        )


def test_it_is_a_weight_and_not_a_loss():
    def scalar(old, behaviour):
        return truncated_importance_weight(old, behaviour, MASK, cap=9.0).sum()

    for grad in jax.grad(scalar, argnums=(0, 1))(OLD, BEHAVIOUR):
        assert not np.any(grad)


def test_extremes_and_empty_masks():
    mask = np.ones((1, 2), bool)
    weight = truncated_importance_weight(np.float32([[-1e4, 1e4]]), np.zeros((1, 2)), mask, cap=5.0)
    np.testing.assert_allclose(weight, [[np.exp(-20), 5.0]], rtol=1e-5)
    empty = truncated_importance_weight(
        OLD, BEHAVIOUR, np.zeros_like(MASK), cap=2.0, normalize=True
    )
    assert not np.any(empty)


def test_an_unknown_level_is_an_error():
    with pytest.raises(ValueError, match="did you mean 'sequence'"):
        truncated_importance_weight(OLD, BEHAVIOUR, MASK, cap=2.0, level="sequences")
