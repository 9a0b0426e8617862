"""Population-based training: worked selections, factors and bounds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.selfplay import population

MEMBERS = 10
select = jax.jit(
    population.select, static_argnames=("top", "bottom", "absolute_gap", "relative_gap")
)
FITNESS = np.array([0.1, 0.9, 0.5, 0.8, 0.2, 0.3, 0.7, 0.4, 0.6, 0.0], np.float32)


def keys(seed, members=MEMBERS):
    return jax.random.split(jax.random.key(seed), members)


def test_worked_selection():
    """Best of ten: 1, 3, 6. Worst: 9, 0, 4. The four between them explore, and copy nobody."""
    seen = set()
    for seed in range(20):
        parent, explores = map(np.asarray, select(FITNESS, keys(seed)))
        kept = [1, 2, 3, 5, 6, 7, 8]
        np.testing.assert_array_equal(parent[kept], kept)
        assert parent.dtype == np.int32 and set(parent[[9, 0, 4]]) <= {1, 3, 6}
        np.testing.assert_array_equal(np.flatnonzero(~explores), [1, 3, 6])
        seen |= set(parent[[9, 0, 4]].tolist())
    assert seen == {1, 3, 6}


@pytest.mark.parametrize(
    ("fitness", "options", "parent"),
    [
        # 0.1 is more than a tenth of 0.9; a gap that is met exactly does not suffice.
        ([0.9, 0.8], {}, [0, 0]),
        ([0.9, 0.82], {}, [0, 1]),
        ([1.0, 0.875], {"relative_gap": 0.125}, [0, 1]),
        ([1.0, 0.5], {"absolute_gap": 0.5}, [0, 1]),
        ([-8.0, -16.0], {"relative_gap": 0.9}, [0, 0]),
        ([-8.0, -9.0], {"relative_gap": 0.2}, [0, 1]),
        ([0.5, 0.5], {"relative_gap": 0.0}, [0, 1]),
        ([np.nan, 0.0], {}, [1, 1]),
        ([np.nan, np.nan], {}, [0, 1]),
        ([0.0, 1.0], {"bottom": 0.0}, [0, 1]),
        # Two of three are the best, two the worst: who is both is among the best.
        ([3.0, 2.0, 1.0], {"top": 0.5, "bottom": 0.5}, None),
    ],
)
def test_who_copies(fitness, options, parent):
    found = np.asarray(select(jnp.array(fitness), keys(0, len(fitness)), **options).parent)
    if parent is None:
        np.testing.assert_array_equal(found[:2], [0, 1])
        assert found[2] in (0, 1)
    else:
        np.testing.assert_array_equal(found, parent)


fitnesses = st.lists(
    st.floats(-100, 100, width=32, allow_subnormal=False),
    min_size=MEMBERS,
    max_size=MEMBERS,
    unique=True,
).map(lambda x: np.array(x, np.float32))


@settings(max_examples=40, deadline=None)
@given(fitnesses, st.integers(0, 1000), st.permutations(range(MEMBERS)))
def test_relations_of_selection(fitness, seed, order):
    key, order = keys(seed), np.array(order)
    parent, explores = map(np.asarray, select(fitness, key))
    best = np.argsort(-fitness)[:3]
    copies = parent != np.arange(MEMBERS)
    assert set(parent[copies]) <= set(best) and set(np.flatnonzero(~explores)) == set(best)
    assert (fitness[parent] >= fitness).all()
    # Members have no places: renumbered, with their keys, the same ones copy the same ones.
    there = np.asarray(select(fitness[order], key[order]).parent)
    np.testing.assert_array_equal(order[there], parent[order])
    # Without gaps only the order counts.
    plain = select(fitness, key, absolute_gap=0.0, relative_gap=0.0).parent
    higher = select(fitness * 2, key, absolute_gap=0.0, relative_gap=0.0).parent
    np.testing.assert_array_equal(plain, higher)


def test_spread_puts_one_member_in_each_part():
    values = np.asarray(population.spread(jax.random.key(0), 8, 1e-5, 1e-1))
    part = np.log10(values / 1e-5) / 4 * 8
    np.testing.assert_array_equal(np.sort(part.astype(int)), np.arange(8))
    assert (np.diff(values) < 0).any()
    discounts = np.asarray(population.spread(jax.random.key(0), 4, 0.9, 0.999))
    part = np.log10((1 - discounts) / 1e-3) / 2 * 4
    np.testing.assert_array_equal(np.sort(part.astype(int)), np.arange(4))
    for value in (2.5e-4, 0.3, 0.95):
        alike = population.spread(jax.random.key(1), 5, value, value)
        np.testing.assert_array_equal(alike, np.full(5, value, np.float32))


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 1000),
    st.sampled_from([(1e-5, 1e-1), (0.01, 0.02), (0.9, 0.999), (0.5, 0.75)]),
    st.floats(0, 1, width=32),
)
def test_explored_values_move_by_the_factors_and_stay_within_bounds(seed, bounds, where):
    low, high = bounds
    value = jnp.clip(jnp.full(MEMBERS, low + where * (high - low), jnp.float32), low, high)
    moved = population.explore(value, keys(seed), low=low, high=high, probability=1.0)
    value, moved = np.asarray(value), np.asarray(moved)
    assert (moved >= np.float32(low)).all() and (moved <= np.float32(high)).all()
    close = population.near_one(low, high)
    assert close == (low >= 0.5)
    inside = (moved > np.float32(low)) & (moved < np.float32(high))
    factor = ((1 - moved) / (1 - value) if close else moved / value)[inside]
    factor = np.maximum(factor, 1 / factor)
    least, most = (1.01, 1.2) if close else (1.1, 1.5)
    tolerance = 1e-3 if close else 1e-5
    assert (factor > least - tolerance).all() and (factor < most + tolerance).all()


def test_how_often_values_move_and_which_way():
    value = jnp.full(20_000, 0.125)
    key = keys(0, 20_000)
    moved = np.asarray(population.explore(value, key, low=1e-3, high=0.4))
    assert abs((moved != 0.125).mean() - 0.15) < 0.01
    up = moved[moved != 0.125] > 0.125
    assert abs(up.mean() - 0.5) < 0.03
    # f is uniform: its mean is 1.3, and nothing lies between 1 / 1.1 and 1.1.
    np.testing.assert_allclose((moved[moved > 0.125] / 0.125).mean(), 1.3, atol=0.01)
    np.testing.assert_allclose((0.125 / moved[moved < 0.125]).mean(), 1.3, atol=0.01)
    still = population.explore(value * 3.1, key, low=1e-3, high=0.4, probability=0.0)
    np.testing.assert_array_equal(still, value * 3.1)
