"""Exact grouping by hash table, and statistics of groups."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from agentrl.advantages import grouping

segment_ids = jax.jit(grouping.segment_ids)
moments = jax.jit(grouping.moments)
distinct = jax.jit(grouping.distinct)
relative = jax.jit(
    grouping.relative, static_argnames=("normalize", "leave_one_out", "singleton", "epsilon")
)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    kinds=st.sampled_from([1, 2, 5, 1000]),
    words=st.integers(1, 3),
)
def test_names_are_segment_idss(seed, kinds, words):
    count = 150
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, kinds, (count, words)).astype(np.uint32)
    include = rng.random(count) < 0.8
    expected, seen = np.full(count, count), {}
    for i in np.flatnonzero(include):
        expected[i] = seen.setdefault(tuple(keys[i]), i)
    np.testing.assert_array_equal(segment_ids(keys, include), expected)


@pytest.mark.parametrize("spread", [1, 256, 65536, 2**24])
def test_structured_keys_do_not_cluster(spread):
    """Keys that differ in a few bits only, all distinct: the worst case of a weak hash."""
    keys = (np.arange(4096, dtype=np.uint64) * spread).astype(np.uint32)
    keys = np.stack([keys, np.arange(4096, dtype=np.uint32) // 64], -1)
    unique = len(np.unique(keys, axis=0))
    owner = np.asarray(segment_ids(keys, np.ones(4096, bool)))
    assert len(np.unique(owner)) == unique


def test_moments_by_hand():
    # Group a: 1, 2, 6: mean 3, variance (4 + 1 + 9) / 2 = 7. Group b: 5 alone. Group c: 2, 2.
    values = np.float32([1.0, 5.0, 2.0, 6.0, 2.0, 2.0, 99.0])
    owner = np.array([0, 1, 0, 0, 4, 4, 7])
    mean, std, count, extent, constant = jax.device_get(moments(values, owner))
    np.testing.assert_allclose(mean[:6], [3, 5, 3, 3, 2, 2], atol=1e-6)
    np.testing.assert_allclose(std[:6], np.sqrt([7, 0, 7, 7, 0, 0]), atol=1e-6)
    np.testing.assert_array_equal(count[:6], [3, 1, 3, 3, 2, 2])
    np.testing.assert_array_equal(extent[:6], [5, 0, 5, 5, 0, 0])
    np.testing.assert_array_equal(constant[:6], [False, True, False, False, True, True])


def test_weighted_moments_are_of_repeated_elements():
    rng = np.random.default_rng(0)
    values = rng.normal(size=30).astype(np.float32)
    owner = rng.integers(0, 3, 30)
    owner = np.array([np.flatnonzero(owner == o)[0] for o in owner])
    weight = rng.integers(0, 4, 30)
    ours = jax.device_get(moments(values, owner, frequency=weight))
    repeated = np.repeat(np.arange(30), weight)
    first = {o: np.flatnonzero(owner[repeated] == o)[0] for o in np.unique(owner)}
    theirs = moments(values[repeated], np.array([first[o] for o in owner[repeated]]))
    theirs = jax.device_get(theirs)
    for mine, expected in zip(ours, theirs, strict=True):
        for o in np.unique(owner):
            np.testing.assert_allclose(mine[owner == o], expected[first[o]], rtol=1e-5)


def test_distinct_values_of_each_group():
    values = np.float32([0.3, 1, 0.1 + 0.2, 1, 2, 1, np.nan, 0.0, -0.0])
    owner = np.array([0, 0, 0, 0, 4, 4, 9, 7, 7])
    near = np.asarray(distinct(values, owner))
    assert near.tolist() == [True, True, False, False, True, True, False, True, False]
    exact = np.asarray(distinct(np.float32([0, 5e-7, 1, 1]), np.zeros(4, int), resolution=0))
    assert exact.tolist() == [True, True, True, False]
    assert np.asarray(distinct(np.float32([0, 5e-7, 1, 1]), np.zeros(4, int))).sum() == 2


@pytest.mark.parametrize(
    "options, expected",
    [
        ({"normalize": "mean"}, [-2, -1, 3, 0]),
        ({"normalize": "std"}, [-2 / 7**0.5, -1 / 7**0.5, 3 / 7**0.5, 0]),
        ({"normalize": "mean", "leave_one_out": True}, [-3, -1.5, 4.5, 0]),
        ({"normalize": "mean", "singleton": "raw"}, [-2, -1, 3, 5]),
    ],
)
def test_relative_by_hand(options, expected):
    values, owner = np.float32([1.0, 2.0, 6.0, 5.0]), np.array([0, 0, 0, 3])
    ours = relative(values, moments(values, owner), epsilon=0.0, **options)
    np.testing.assert_allclose(ours, expected, atol=1e-6)


def test_joint_names():
    owner = grouping.joint_segments(
        np.array([1, 1, 1, 0, 1], bool), np.array([0, 0, 1, 0, 0]), np.array([5, -1, 5, 5, 5])
    )
    assert np.asarray(owner).tolist() == [0, 1, 2, 5, 0]


def test_large_segments_are_as_exact_as_small_ones():
    """Sequential float32 sums of 262,144 turns are off by 6e-3 deviations."""
    rng = np.random.default_rng(0)
    count = 262_144
    one = np.zeros(count, int)
    for values in (
        rng.choice([0.5, 0.6, 0.7], count),
        rng.choice([-0.1, 10], count, p=[0.99, 0.01]),
    ):
        values = values.astype(np.float32)
        ours = moments(values, one)
        exact = values.astype(np.float64)
        assert abs(float(ours.mean[0]) - exact.mean()) < 1e-5 * exact.std()
        np.testing.assert_allclose(ours.std[0], exact.std(ddof=1), rtol=2e-6)


def test_frequencies_that_sum_to_less_than_one():
    values, segment = np.float32([2, 4]), np.zeros(2, int)
    ours = moments(values, segment, frequency=np.float32([0.2, 0.2]))
    np.testing.assert_allclose(ours.mean, [3, 3])
    np.testing.assert_allclose(ours.std, [2**0.5, 2**0.5], rtol=1e-6)


def test_equal_is_relative_to_the_numbers_that_were_summed():
    values, segment = np.float32([1e-6, 0.0]), np.zeros(2, int)
    assert not np.any(moments(values, segment).constant)
    assert np.all(moments(values, segment, scale=np.float32([20, 20])).constant)


def test_deviations_whose_squares_overflow_give_zero():
    values, segment = np.float32([3e38, -3e38, 1e30]), np.zeros(3, int)
    ours = relative(values, moments(values, segment), normalize="std", epsilon=1e-6)
    np.testing.assert_array_equal(ours, 0)


def test_low_precision_inputs_are_converted():
    values = np.ones(512, jnp.bfloat16)
    ours = moments(values, np.zeros(512, int))
    assert ours.count.dtype == jnp.float32 and float(ours.count[0]) == 512


def test_sharded_keys_need_no_communication_inside_the_loop():
    """Sums over devices in each round made processes on CPUs fail: such loops run at once."""
    mesh = jax.make_mesh((4,), ("data",), axis_types=(AxisType.Auto,))
    sharded = NamedSharding(mesh, PartitionSpec("data"))
    keys = np.random.default_rng(0).integers(0, 9, (64, 2)).astype(np.int32)
    include = np.arange(64) % 5 > 0
    with jax.set_mesh(mesh):
        placed = jax.device_put((keys, include), sharded)
        program = jax.jit(grouping.segment_ids, out_shardings=sharded).lower(*placed).compile()
        out = program(*placed)
    np.testing.assert_array_equal(out, segment_ids(keys, include))
    assert "while(" in program.as_text() and "all-gather" in program.as_text()
    assert "all-reduce" not in program.as_text()
