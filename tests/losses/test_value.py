"""Losses of the critic against verl's clipped value loss, and explained variance."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import recorded

from agentrl import losses

DATA = recorded.arrays("token_loss")
MASK = DATA["in/mask"].astype(bool)
OLD, TARGET = (np.asarray(DATA[key], np.float32) for key in ("in/values", "adv/gae_returns"))
VALUE = OLD + np.float32(0.3)
value_loss, clipped_value_loss, explained_variance = map(
    jax.jit, (losses.value_loss, losses.clipped_value_loss, losses.explained_variance)
)


def test_agrees_with_verl():
    loss = clipped_value_loss(VALUE, OLD, TARGET, MASK, clip=0.2)
    np.testing.assert_allclose(
        losses.aggregate(loss, MASK, "token_mean"),
        DATA["loss/value_clip0.2_vpred=values+0.3"],
        atol=1e-6,
    )


@pytest.mark.parametrize(
    "value, target, loss, grad",
    [
        (1.1, 2.0, 0.5 * 0.9**2, -0.9),  # inside [0.8, 1.2]
        (1.5, 2.0, 0.5 * 0.8**2, 0.0),  # clipped to 1.2, whose error 0.8 is larger than 0.5
        (1.5, 0.0, 0.5 * 1.5**2, 1.5),  # clipped error 1.2 is smaller than 1.5
        (0.5, 0.0, 0.5 * 0.8**2, 0.0),  # clipped to 0.8
    ],
)
def test_worked_numbers_of_the_clip(value, target, loss, grad):
    ours = jax.value_and_grad(
        lambda v: clipped_value_loss(v, np.float32(1.0), np.float32(target), clip=0.2)
    )(np.float32(value))
    np.testing.assert_allclose(ours, (loss, grad), rtol=1e-5)


def test_a_wide_clip_is_none_and_no_clip_is_no_smaller():
    plain = value_loss(VALUE, TARGET, MASK)
    np.testing.assert_array_equal(clipped_value_loss(VALUE, OLD, TARGET, MASK, clip=1e3), plain)
    assert np.all(clipped_value_loss(VALUE, OLD, TARGET, MASK, clip=0.1) >= plain)
    np.testing.assert_allclose(plain, np.where(MASK, 0.5 * (VALUE - TARGET) ** 2, 0), rtol=1e-6)


def test_explained_variance():
    target = np.float32([[1.0, 2.0, 3.0, 4.0, np.nan]])
    mask = np.array([[True] * 4 + [False]])
    assert float(explained_variance(target, target, mask)) == 1
    assert float(explained_variance(target + 7, target, mask)) == 1  # a bias is not variance
    np.testing.assert_allclose(explained_variance(0 * target, target, mask), 0, atol=1e-6)
    np.testing.assert_allclose(explained_variance(-target, target, mask), 1 - 4, rtol=1e-6)
    # errors (1, -1, 1, -1): variance 1; targets: variance (2.25 + 0.25) / 2 = 1.25
    value = target + np.float32([[1.0, -1.0, 1.0, -1.0, 0.0]])
    np.testing.assert_allclose(explained_variance(value, target, mask), 1 - 1 / 1.25, rtol=1e-6)


@pytest.mark.parametrize("target", [0.0, 0.1, 1e4 + 0.1, 1e-30])
def test_equal_targets_leave_nothing_to_explain(target):
    value = np.arange(6.0)
    assert float(explained_variance(value, np.full(6, target))) == 0
    assert float(explained_variance(value, value, np.zeros(6, bool))) == 0


def test_precision_and_vmap():
    low = [np.asarray(x, jnp.bfloat16) for x in (VALUE, OLD, TARGET)]
    assert clipped_value_loss(*low, MASK, clip=0.2).dtype == np.float32
    assert explained_variance(low[0], low[2], MASK).dtype == np.float32
    mapped = jax.vmap(explained_variance)(VALUE, TARGET, MASK)
    expected = [explained_variance(v, t, m) for v, t, m in zip(VALUE, TARGET, MASK, strict=True)]
    np.testing.assert_allclose(mapped, expected, rtol=1e-5, atol=1e-5)


def test_large_errors_count_by_their_size():
    """Huber's loss: e^2 / 2 up to delta, then delta (|e| - delta / 2), with slopes up to delta."""
    error = np.array([[0.5, -2.0, 12.0, -30.0]], np.float32)
    zero = np.zeros_like(error)

    def total(value):
        return losses.clipped_value_loss(value, value, zero, clip=0.2, delta=10.0)

    np.testing.assert_allclose(jax.jit(total)(error), [[0.125, 2.0, 70.0, 250.0]], rtol=1e-6)
    slopes = jax.jit(jax.grad(lambda value: total(value).sum()))(error)
    np.testing.assert_allclose(slopes, [[0.5, -2.0, 10.0, -10.0]], rtol=1e-6)
    # The clipped error is the larger one, and has no gradient.
    frozen = jax.jit(
        jax.grad(
            lambda v: losses.clipped_token_value_loss(
                v, zero + 20, zero, clip=1.0, delta=10.0
            ).sum()
        )
    )(zero + 15)
    np.testing.assert_array_equal(frozen, 0)


def test_a_delta_of_nothing_is_an_error():
    with pytest.raises(ValueError, match="clipped_value_loss delta"):
        losses.clipped_value_loss(VALUE, OLD, TARGET, clip=0.2, delta=0.0)
