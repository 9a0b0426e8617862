"""Metrics as one array: a mapping like the dictionary that it is made from."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.learner.totals import totals


def test_it_is_the_mapping_that_it_was_made_from():
    metrics = {"b": jnp.array([1.0, 2.0]), "a": jnp.array([3.0, 4.0])}
    made = totals(metrics)
    assert list(made) == ["a", "b"] and len(made) == 2 and made.array.shape == (2, 2)
    for name, value in metrics.items():
        np.testing.assert_array_equal(made[name], value)
    with pytest.raises(KeyError, match="c"):
        made["c"]


def test_names_are_known_of_shapes():
    shapes = jax.eval_shape(totals, {"a": jax.ShapeDtypeStruct((2,), jnp.float32)})
    assert "a" in shapes and "b" not in shapes and list(shapes) == ["a"]


def test_sums_are_over_leading_axes_and_seeds_stay_beside_each_other():
    steps = jnp.arange(12.0).reshape(2, 3, 2)  # [seeds, steps, 2]
    made = jax.vmap(jax.vmap(lambda x: totals({"x": x, "y": -x})))(steps)
    assert made["x"].shape == (2, 3, 2) and made.array.shape == (2, 3, 2, 2)
    each = jax.vmap(lambda one: one.summed((0,)))(made)
    np.testing.assert_array_equal(each["x"], steps.sum(1))
    # As what a population adds to the metrics of its members.
    np.testing.assert_array_equal(totals({**each, "z": steps[:, 0]})["y"], -steps.sum(1))


def test_there_may_be_none():
    assert dict(totals({})) == {}
