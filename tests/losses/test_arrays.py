"""Masking before arithmetic, and means over a mask.

Run without jit: the compiler may turn a product with a mask into a selection, and so hide a NaN.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.losses.arrays import largest, log_ratio, masked, masked_mean

MASK = np.array([[True, False, True]])


@pytest.mark.parametrize("poison", [np.nan, np.inf, 1e9])
def test_masked_entries_are_zero_and_without_gradient(poison):
    x = np.float32([[1.0, poison, 3.0]])
    np.testing.assert_array_equal(masked(MASK, x)[0], [[1, 0, 3]])
    grad = jax.grad(lambda x: jnp.sum(jnp.square(masked(MASK, x)[0])))(x)
    np.testing.assert_array_equal(grad, [[2, 0, 6]])
    assert float(masked_mean(x, MASK)) == 2  # (1 + 3) / 2


def test_masked_means_of_nothing_and_of_everything():
    x = np.float32([[1.0, 2.0, 6.0]])
    value, grad = jax.value_and_grad(masked_mean)(x, np.zeros((1, 3), bool))
    assert float(value) == 0 and not np.any(grad)
    assert float(masked_mean(x, None)) == 3
    assert float(masked_mean(x > 1, MASK)) == 0.5  # booleans: shares


def test_everything_becomes_float32_of_one_shape():
    for dtype in (np.float16, jnp.bfloat16, np.float64, np.int32, bool):
        assert masked(None, np.ones((1, 3), dtype))[0].dtype == jnp.float32
    with pytest.raises(ValueError):
        masked(MASK, np.ones((1, 3)), np.ones((3, 1)))
    with pytest.raises(ValueError):
        masked(MASK.astype(np.float32), np.ones((1, 3)))


def test_log_ratio_is_bounded():
    logp, old = np.float32([0.0, -1.0, -90.0]), np.float32([-50.0, -1.5, 0.0])
    np.testing.assert_array_equal(log_ratio(logp, old), [20, 0.5, -20])
    for argument, expected in ((0, [0, 1, 0]), (1, [0, 0, 0])):
        grad = jax.grad(lambda *args: log_ratio(*args).sum(), argnums=argument)(logp, old)
        np.testing.assert_array_equal(grad, expected)


SCORES = st.sampled_from([-np.inf, -2.0, -1e-30, -0.0, 0.0, 1e-30, 1.0, 3.0, np.inf])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(SCORES, st.booleans()), min_size=12, max_size=12),
    st.integers(0, 14),
)
def test_the_largest_are_those_of_a_stable_sort(drawn, count):
    score = np.float32([x for x, _ in drawn]).reshape(3, 4)
    candidates = np.array([there for _, there in drawn]).reshape(3, 4)
    found = np.asarray(largest(score, candidates, np.float32(count))).reshape(-1)
    places = [i for i in np.argsort(-score.reshape(-1), kind="stable") if candidates.flat[i]]
    assert np.flatnonzero(found).tolist() == sorted(places[:count])


def test_a_negative_zero_is_zero_compiled_as_not():
    score, candidates = jnp.array([[-0.0, 0.0, 0.0]]), jnp.ones((1, 3), bool)
    for function in (largest, jax.jit(largest)):
        assert function(score, candidates, 1).tolist() == [[True, False, False]]
