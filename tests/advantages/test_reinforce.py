"""Whitening: equal values, frequencies, precision. The estimators: test_group_relative."""

import jax
import numpy as np
import pytest

from agentrl import advantages

whiten = jax.jit(advantages.whiten)


@pytest.mark.parametrize("value, count", [(1000.1, 7), (1000.1, 18), (99.9, 512), (7.3, 512)])
def test_equal_values_give_exactly_zero(value, count):
    values = np.full((count, 1), value, np.float32)
    every = np.ones((count, 1), bool)
    np.testing.assert_array_equal(whiten(values, every), 0)
    np.testing.assert_array_equal(advantages.reinforce_pp(values, every), 0)
    # Padding is not one of the values.
    padded = np.concatenate([values, np.full((1, 1), np.nan, np.float32)])
    np.testing.assert_array_equal(whiten(padded, np.arange(count + 1)[:, None] < count), 0)


def test_mean_and_variance():
    rng = np.random.default_rng(0)
    values = (1000 + rng.normal(size=(50, 4))).astype(np.float32)
    mask = rng.random((50, 4)) < 0.7
    ours = np.asarray(whiten(values, mask), np.float64)[mask]
    exact = values.astype(np.float64)[mask]
    np.testing.assert_allclose(ours, (exact - exact.mean()) / exact.std(ddof=1), atol=2e-4)
    # The mean is a float32, 3e-5 apart from the next one.
    assert abs(ours.mean()) < 3e-5


def test_frequencies_count_entries():
    values, mask = np.float32([[1, 2, 6]]), np.ones((1, 3), bool)
    twice = whiten(np.float32([[1, 1, 2, 6]]), np.ones((1, 4), bool))
    ours = whiten(values, mask, frequency=np.float32([[2, 1, 1]]))
    np.testing.assert_allclose(ours[0], np.asarray(twice)[0, [0, 2, 3]], rtol=1e-5)
    # One entry, however often it counts, and none.
    one = np.array([[True, False, False]])
    np.testing.assert_array_equal(whiten(values, one, frequency=np.float32([[5, 1, 1]])), 0)
    np.testing.assert_array_equal(whiten(values, np.zeros((1, 3), bool)), 0)
