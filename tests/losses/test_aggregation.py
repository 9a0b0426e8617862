"""Aggregations against verl's outputs, their worked example, and what must not change them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import recorded

from agentrl import losses
from agentrl.losses import AGGREGATIONS

DATA = recorded.arrays("token_loss")
MASK = DATA["in/mask"].astype(bool)
ROWS = np.array([[1.0, 1, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 2]])
LENGTHS = np.array([[True] * 2 + [False] * 6, [True] * 8])
aggregate = jax.jit(losses.aggregate, static_argnums=2)
aggregate_and_grad = jax.jit(jax.value_and_grad(losses.aggregate), static_argnums=2)


def options(how):
    return {"constant": 7.0} if how == "constant" else {}


def total(values, mask, how):
    return aggregate(values, mask, how, **options(how))


@pytest.mark.parametrize(
    "how, constant, expected",
    [
        ("token_mean", None, 4 / 10),
        ("row_mean", None, (2 / 2 + 2 / 8) / 2),
        ("row_sum", None, (2 + 2) / 2),
        ("constant", 8, 4 / 8),
    ],
)
def test_worked_example(how, constant, expected):
    np.testing.assert_allclose(aggregate(ROWS, LENGTHS, how, constant=constant), expected)


@pytest.mark.parametrize(
    "key, how, constant",
    [
        ("token-mean", "token_mean", None),
        ("seq-mean-token-mean", "row_mean", None),
        ("seq-mean-token-sum", "row_sum", None),
        ("seq-mean-token-sum-norm", "constant", 6),
    ],
)
def test_agrees_with_verl(key, how, constant):
    ours = aggregate(DATA["in/entropy"], MASK, how, constant=constant)
    np.testing.assert_allclose(ours, DATA[f"agg/{key}"], rtol=1e-6)


def test_dr_grpo_divides_rows_by_a_fixed_length():
    # 2 rows of up to 8: mean over rows of (row sum / 8) = (2/8 + 2/8) / 2
    ours = aggregate(ROWS, LENGTHS, "constant", constant=2 * 8)
    np.testing.assert_allclose(ours, 0.25)
    np.testing.assert_allclose(ours, aggregate(ROWS, LENGTHS, "row_sum") / 8)


@pytest.mark.parametrize("how", AGGREGATIONS)
@pytest.mark.parametrize("poison", [np.nan, np.inf, 1e9])
def test_nothing_behind_the_mask_is_read(how, poison):
    clean, poisoned = (
        aggregate_and_grad(np.where(MASK, DATA["in/entropy"], x), MASK, how, **options(how))
        for x in (0, poison)
    )
    np.testing.assert_array_equal(clean[0], poisoned[0])
    np.testing.assert_array_equal(clean[1], poisoned[1])
    assert np.all(np.asarray(clean[1])[~MASK] == 0) and np.all(np.asarray(clean[1])[MASK] > 0)


@pytest.mark.parametrize("how", AGGREGATIONS)
def test_empty_masks_give_zero_with_zero_gradient(how):
    ones, empty = np.ones((8, 6)), np.zeros((8, 6), bool)
    value, grad = aggregate_and_grad(ones, empty, how, **options(how))
    assert float(value) == 0 and not np.any(grad)


@pytest.mark.parametrize("how", AGGREGATIONS)
def test_order_of_rows_and_empty_rows_do_not_matter(how):
    values = DATA["in/entropy"]
    plain = total(values, MASK, how)
    order = np.random.default_rng(0).permutation(8)
    padded = np.concatenate([values[order], np.full((3, 6), 5.0)])
    mask = np.concatenate([MASK[order], np.zeros((3, 6), bool)])
    np.testing.assert_allclose(total(padded, mask, how), plain, rtol=1e-6)


@pytest.mark.parametrize("how", AGGREGATIONS)
def test_masking_a_row_is_deleting_it(how):
    mask = MASK & (np.arange(8) != 3)[:, None]
    keep = np.arange(8) != 3
    values = DATA["in/entropy"]
    np.testing.assert_allclose(
        total(values, mask, how), total(values[keep], MASK[keep], how), rtol=1e-6
    )


def test_equal_lengths_make_the_three_means_one():
    values, mask = DATA["in/entropy"], np.ones((8, 6), bool)
    expected = values.mean()
    for how, scale in (("token_mean", 1), ("row_mean", 1), ("row_sum", 6)):
        np.testing.assert_allclose(aggregate(values, mask, how) / scale, expected, rtol=1e-6)


def test_micro_batches_under_a_traced_constant_add_up_to_the_token_mean():
    values = DATA["in/entropy"]
    count = MASK.sum()
    parts = sum(
        aggregate(values[i : i + 2], MASK[i : i + 2], "constant", constant=count)
        for i in range(0, 8, 2)
    )
    np.testing.assert_allclose(parts, aggregate(values, MASK, "token_mean"), rtol=1e-6)


def test_low_precision_is_summed_in_float32():
    values = np.full((1, 4096), 0.1, jnp.bfloat16)
    out = aggregate(values, np.ones((1, 4096), bool), "row_sum")
    assert out.dtype == jnp.float32
    np.testing.assert_allclose(out, 4096 * float(jnp.bfloat16(0.1)), rtol=1e-6)


def test_errors_say_what_to_do():
    with pytest.raises(ValueError, match="did you mean 'token_mean'.*row_sum"):
        losses.aggregate(ROWS, LENGTHS, "token-mean")
    with pytest.raises(ValueError, match="give constant="):
        losses.aggregate(ROWS, LENGTHS, "constant")
    with pytest.raises(ValueError, match="takes no constant, given 8"):
        losses.aggregate(ROWS, LENGTHS, "row_mean", constant=8)
    with pytest.raises(ValueError, match="expected more than 0"):
        losses.aggregate(ROWS, LENGTHS, "constant", constant=0)
