import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.policies.attention import (
    RopeScaling,
    attend,
    attend_causal,
    attend_flash,
    frequencies,
    rotate,
    rotation,
    span,
    visible,
)
from agentrl.policies.chunks import in_chunks


def drawn(*shapes):
    """Normal numbers in arrays of these shapes."""
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape).astype(np.float32) for shape in shapes]


def test_attention_by_hand():
    # One head of two numbers; queries see slots 0 and 1, then 0, 1 and 2.
    q = np.float32([[[[1.0, 0.0]], [[0.0, 2.0]]]])
    k = np.float32([[[0.0, 1.0], [np.log(3.0), 0.0], [0.0, np.log(2.0)]]])
    v = np.float32([[[1.0, 0.0], [0.0, 1.0], [4.0, 4.0]]])
    mask = np.array([[[True, True, False], [True, True, True]]])
    segments = [slice(0, 2), slice(2, 3)]
    out = jax.jit(functools.partial(attend, mask=lambda start, stop: mask[..., start:stop]))(
        q, [k[:, s].swapaxes(1, 2)[:, None] for s in segments], [v[:, None, s] for s in segments]
    )
    # Scores 0 and log 3: weights 1/4 and 3/4.
    np.testing.assert_allclose(out[0, 0, 0], [0.25, 0.75], rtol=1e-6)
    # Scores 2, 0 and 2 log 2: weights e^2, 1 and 4.
    e = np.exp(2.0)
    expected = np.array([e + 16, 1 + 16]) / (e + 5)
    np.testing.assert_allclose(out[0, 1, 0], expected, rtol=1e-6)


def test_sliding_window_counts_the_position_itself():
    seen = visible(jnp.array([4]), jnp.arange(6), 3)
    np.testing.assert_array_equal(seen, [[False, False, True, True, True, False]])


def test_rotary_positions_by_hand():
    # theta 100 and two pairs: 1 and 1/10 radians a position.
    frequency = frequencies(4, 100.0, None)
    np.testing.assert_allclose(frequency, [1.0, 0.1], rtol=1e-6)
    turned = rotate(jnp.array([[[1.0, 0.0, 0.0, 2.0]]]), rotation(jnp.array([3]), frequency, 4))
    # Pair (1, 0) by 3 radians, pair (0, 2) by 0.3.
    expected = [np.cos(3), -2 * np.sin(0.3), np.sin(3), 2 * np.cos(0.3)]
    np.testing.assert_allclose(turned[0, 0], expected, rtol=1e-5)


def test_rope_scaling_by_hand():
    # Frequencies 1, 0.1, 0.01: wavelengths 6.3, 63, 628. With c = 100, low 1 and high 4: the first
    # is below 100 / 4 and stays; the last is above 100 and is divided by 2; for the middle one
    # s = (100 / 62.83 - 1) / 3 = 0.1972 and f = (1 - s) 0.05 + s 0.1.
    scaled = frequencies(6, 1000.0, RopeScaling(2.0, 1.0, 4.0, 100))
    share = (100 * 0.1 / (2 * np.pi) - 1) / 3
    expected = [1.0, (1 - share) * 0.05 + share * 0.1, 0.005]
    np.testing.assert_allclose(scaled, expected, rtol=1e-6)
    np.testing.assert_allclose(
        frequencies(6, 1000.0, RopeScaling(4.0)), [0.25, 0.025, 0.0025], rtol=1e-6
    )


def test_impossible_rope_scaling():
    with pytest.raises(ValueError, match="low_freq_factor"):
        RopeScaling(2.0, 4.0, 4.0)
    with pytest.raises(ValueError, match="factor=0.5"):
        RopeScaling(0.5)


def test_span_of_what_is_seen():
    first, count = jnp.array([5, 9, 2]), jnp.array([2, 0, 3])
    # Positions 5, 6 and 2, 3, 4; the second row asks for nothing.
    assert tuple(map(int, span(first, count, None))) == (0, 7)
    assert tuple(map(int, span(first, count, 2))) == (1, 7)
    low, high = span(first, jnp.zeros_like(count), 2)
    assert int(low) >= int(high)


@pytest.mark.parametrize("window", [None, 3])
def test_segments_outside_of_the_span_are_not_read(window):
    q, keys, values = drawn((2, 1, 4, 8), (2, 2, 8, 12), (2, 2, 12, 8))
    position = np.array([7, 6])

    def mask(start, stop):
        return visible(position[:, None], jnp.arange(start, stop)[None], window)

    run = jax.jit(functools.partial(attend, mask=mask))
    whole = run(q, [keys], [values])
    # What lies outside must not even meet the products: it is not a number there.
    outside = np.r_[8:12] if window is None else np.r_[0:4, 8:12]
    spoilt = values.copy()
    spoilt[:, :, outside] = np.nan
    parts = [slice(0, 4), slice(4, 8), slice(8, 12)]
    out = run(
        q,
        [keys[..., part] for part in parts],
        [spoilt[:, :, part] for part in parts],
        span=span(position, np.ones_like(position), window),
    )
    np.testing.assert_allclose(out, whole, atol=1e-6)


def test_positions_are_relative():
    q, k = drawn((5, 1, 8), (5, 1, 8))
    frequency, read = frequencies(8, 10000.0, None), np.arange(5)

    @jax.jit
    def scores(shift):
        by = rotation(read + shift, frequency, 2048)
        return jnp.einsum("qhd,khd->qk", rotate(q, by), rotate(k, by))

    np.testing.assert_allclose(scores(0), scores(1000), atol=2e-4)


@pytest.mark.parametrize("window", [None, 1, 20, 100])
def test_blocks_of_queries_change_nothing(window):
    length = 150  # three blocks of 64, the last one shorter
    q, k, v = drawn(*[(2, length, 2, 4)] * 3)
    index = np.arange(length)[None]

    def mask(start, stop):
        return visible(index, index[:, start:stop], window)

    read = jax.jit(functools.partial(attend, mask=mask))
    whole = read(q, [k.transpose(0, 2, 3, 1)], [v.transpose(0, 2, 1, 3)])
    out = jax.jit(functools.partial(attend_causal, window=window))(q, k, v)
    np.testing.assert_allclose(out, whole, atol=3e-6)  # sums of 150 numbers in another order
    assert out.shape == (2, length, 2, 4)


@pytest.mark.parametrize("limit", [1, 300, 10**6])
def test_few_queries_at_a_time_change_nothing(limit):
    q, keys, values = drawn((2, 7, 4, 8), (2, 2, 8, 12), (2, 2, 12, 8))
    positions = np.array([[3], [5]]) + np.arange(7)

    def read(q, positions):
        return attend(
            q, [keys], [values], lambda a, b: visible(positions, jnp.arange(a, b)[None], None)
        )

    few = functools.partial(in_chunks, read, width=4 * 12, limit=limit)
    out, whole = jax.jit(lambda *given: (few(*given), read(*given)))(q, positions)
    np.testing.assert_allclose(out, whole, atol=1e-6)
    # Scores of two rows of four heads with 12 keys, of 1, 3 or all 7 queries.
    assert ("scan" in str(jax.make_jaxpr(few)(q, positions))) == (limit < 7 * 96)


@pytest.mark.parametrize("window, length", [(None, 70), (1, 70), (20, 71)])
def test_flash_attention_means_the_same(window, length):
    """As JAX computes it without cuDNN: mask, scale, groups of heads, gradients."""
    parts = drawn((2, length, 4, 4), (2, length, 2, 4), (2, length, 2, 4))

    def gradients(attend):
        return jax.jit(jax.grad(lambda x: jnp.sum(jnp.sin(attend(*x, window=window)))))(parts)

    ours = gradients(attend_causal)
    theirs = gradients(functools.partial(attend_flash, implementation="xla"))
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, other, atol=2e-5)
