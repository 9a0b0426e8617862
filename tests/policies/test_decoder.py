import dataclasses
import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.policies import decoder
from agentrl.policies.attention import RopeScaling
from agentrl.policies.decoder import DecoderConfig

TINY = DecoderConfig(
    vocab_size=23, width=16, layers=2, heads=4, kv_heads=2, head_dim=8, hidden=24, value_heads=2
)
VARIANTS = {
    "llama": TINY,
    "one key head, no tie": dataclasses.replace(TINY, kv_heads=1, tie_embeddings=False),
    "qwen2": dataclasses.replace(TINY, qkv_bias=True, rope_theta=1e6),
    "qwen3": dataclasses.replace(TINY, qk_norm=True),
    "mistral": dataclasses.replace(TINY, sliding_window=5),
    "gemma2": dataclasses.replace(
        TINY,
        activation="gelu_tanh",
        norm_plus_one=True,
        post_norms=True,
        embed_scale=4.0,
        query_scale=0.3,
        attention_soft_cap=5.0,
        logit_soft_cap=3.0,
        sliding_window=4,
        sliding_layers=(True, False),
    ),
    "gemma3": dataclasses.replace(
        TINY,
        norm_plus_one=True,
        post_norms=True,
        qk_norm=True,
        sliding_window=6,
        sliding_layers=(True, False),
        local_rope_theta=100.0,
        rope_scaling=RopeScaling(8.0),
    ),
}
init = jax.jit(decoder.init, static_argnums=1)
hidden = jax.jit(decoder.hidden, static_argnums=1)
logits = jax.jit(decoder.logits, static_argnums=1)
extend = jax.jit(decoder.extend, static_argnums=1)
step = jax.jit(decoder.step, static_argnums=1)


@functools.cache
def sharp(config):
    """Parameters large enough for attention and logits to depend on every token."""
    rng = np.random.default_rng(1)

    def noise(x):
        scale = 0.3 if x.ndim > 1 else 0.1
        return x + np.float32(scale * rng.normal(size=x.shape))

    return jax.tree.map(noise, jax.device_get(init(jax.random.key(0), config)))


@functools.cache
def tokens(rows, length):
    drawn = np.random.default_rng(0).integers(0, TINY.vocab_size, (rows, length))
    return drawn.astype(np.int32)


@pytest.mark.parametrize("name", ["llama", "gemma2"])
def test_a_position_sees_only_what_stands_before_it(name):
    config = VARIANTS[name]
    params, read = sharp(config), tokens(2, 12)
    other = np.where(np.arange(12) < 7, read, (read + 1) % config.vocab_size)
    before, after = (np.asarray(logits(params, config, x)) for x in (read, other))
    assert before.shape == (2, 12, config.vocab_size) and before.dtype == np.float32
    np.testing.assert_array_equal(before[:, :7], after[:, :7])
    assert np.abs(before[:, 7:] - after[:, 7:]).min(axis=(0, 1)).max() > 1e-3


@pytest.mark.parametrize("name", VARIANTS)
def test_appending_in_turns_gives_the_hidden_states_of_the_whole(name):
    config = VARIANTS[name]
    params, read = sharp(config), tokens(4, 20)
    whole = np.asarray(hidden(params, config, read))
    cache = decoder.empty_cache(config, 4, 20, segment=20 if name == "llama" else 7)
    assert cache.size == 20
    # Rows at different lengths, one of them silent for a while, one that never starts.
    for counts in ([5, 1, 0, 0], [5, 2, 4, 0], [1, 5, 0, 0], [4, 4, 5, 0]):
        start, count = np.asarray(cache.length), np.array(counts, np.int32)
        take = np.clip(start[:, None] + np.arange(5), 0, 19)
        out, cache = extend(params, config, cache, np.take_along_axis(read, take, axis=1), count)
        out = np.asarray(out)
        for row in range(4):
            np.testing.assert_allclose(
                out[row, : count[row]],
                whole[row, start[row] : start[row] + count[row]],
                atol=2e-5,
            )
    np.testing.assert_array_equal(cache.length, [15, 12, 9, 0])


def test_steps_give_the_hidden_states_of_the_whole():
    params, read = sharp(TINY), tokens(3, 6)
    whole = np.asarray(hidden(params, TINY, read))
    cache = decoder.empty_cache(TINY, 3, 6, segment=4)
    for t in range(6):
        # The second row joins after two steps and reads from its start.
        active, place = np.array([True, t >= 2, t < 2]), np.array([t, max(t - 2, 0), t])
        out, cache = step(params, TINY, cache, read[np.arange(3), place], active)
        for row in np.flatnonzero(active):
            np.testing.assert_allclose(np.asarray(out)[row], whole[row, place[row]], atol=2e-5)
    np.testing.assert_array_equal(cache.length, [6, 4, 2])


def test_what_is_not_counted_leaves_no_trace():
    params, read = sharp(TINY), tokens(3, 6)
    empty = decoder.empty_cache(TINY, 3, 16, segment=5)
    _, cache = extend(params, TINY, empty, read, np.array([4, 0, 2]))
    other = read.copy()
    other[:, 4:], other[1], other[2, 2:] = 0, 1, 7
    _, same = extend(params, TINY, empty, other, np.array([4, 0, 2]))
    empty, cache = jax.device_get((empty, cache))
    chex.assert_trees_all_equal(cache, same)
    for before, after in zip(jax.tree.leaves(empty), jax.tree.leaves(cache), strict=True):
        np.testing.assert_array_equal(before[1], after[1])
    np.testing.assert_array_equal(cache.length, [4, 0, 2])
    _, stepped = step(params, TINY, cache, read[:, 0], np.array([False, False, True]))
    stepped = jax.device_get(stepped)
    for before, after in zip(jax.tree.leaves(cache), jax.tree.leaves(stepped), strict=True):
        np.testing.assert_array_equal(before[:2], after[:2])


@pytest.mark.parametrize("segment", [4, 7])
def test_tokens_beyond_the_size_are_dropped_and_counted(segment):
    params, read = sharp(TINY), tokens(2, 10)
    cache = decoder.empty_cache(TINY, 2, 7, segment=segment)
    # 6 + 3 = 9 tokens for 7 slots; the second row has 3 + 3 = 6.
    _, cache = extend(params, TINY, cache, read[:, :6], np.array([6, 3]))
    _, full = extend(params, TINY, cache, read[:, 6:9], np.array([3, 3]))
    np.testing.assert_array_equal(full.length, [9, 6])
    np.testing.assert_array_equal(full.overflowed, [True, False])
    # The same as if only what fits had been appended.
    _, exact = extend(params, TINY, cache, read[:, 6:9], np.array([1, 3]))
    chex.assert_trees_all_equal((full.k, full.v), (exact.k, exact.v))
    assert not np.asarray(exact.overflowed).any()
    # A full row that goes on leaves the other as it was.
    _, later = step(params, TINY, full, read[:, 0], np.array([True, False]))
    chex.assert_trees_all_equal((later.k, later.v), (full.k, full.v))
    np.testing.assert_array_equal(later.length, [10, 6])


def test_init_names_and_scales():
    config = dataclasses.replace(TINY, width=64, hidden=256, layers=8, tie_embeddings=False)
    params = jax.device_get(init(jax.random.key(0), config))
    assert params.keys() == {"embed_tokens", "layers", "norm", "lm_head", "value_head"}
    assert {x.shape[0] for x in jax.tree.leaves(params["layers"])} == {8}
    layer = jax.tree.map(lambda x: x[3], params["layers"])
    assert layer["self_attn"]["k_proj"]["kernel"].shape == (64, 2 * 8)
    assert layer["mlp"]["down_proj"]["kernel"].shape == (256, 64)
    np.testing.assert_allclose(np.std(layer["mlp"]["up_proj"]["kernel"]), 0.02, rtol=0.05)
    # Two projections a layer write into the residual: 1 / sqrt(16).
    np.testing.assert_allclose(np.std(layer["mlp"]["down_proj"]["kernel"]), 0.005, rtol=0.05)
    chex.assert_trees_all_equal_dtypes(
        params, jax.tree.map(lambda x: np.zeros(x.shape, np.float32), params)
    )
    plus_one = init(jax.random.key(0), dataclasses.replace(TINY, norm_plus_one=True))
    assert not np.asarray(plus_one["norm"]["weight"]).any()


def test_value_heads():
    params, read = sharp(TINY), tokens(2, 5)
    out = hidden(params, TINY, read)
    value = jax.jit(decoder.values, static_argnums=1)(params, TINY, out)
    assert value.shape == (2, 5, 2) and value.dtype == jnp.float32
    kernel, bias = params["value_head"]["kernel"], params["value_head"]["bias"]
    np.testing.assert_allclose(value, np.asarray(out) @ kernel + bias, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="value_heads=0"):
        decoder.values(params, dataclasses.replace(TINY, value_heads=0), out)


@pytest.mark.parametrize("name", ["llama", "gemma2"])
def test_gradients_are_finite_and_do_not_come_from_the_future(name):
    config = VARIANTS[name]
    params, read = sharp(config), tokens(2, 8)

    def loss(params, embedded):
        out = decoder.hidden(params | {"embed_tokens": {"weight": embedded}}, config, read)
        return jnp.sum(out[:, 3] ** 2) + jnp.sum(decoder.unembed(params, config, out[:, 3]))

    gradient = jax.jit(jax.grad(loss, argnums=(0, 1)))
    grads, embedded = gradient(params, params["embed_tokens"]["weight"])
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(grads))
    moved = np.abs(np.asarray(embedded)).sum(axis=1) > 0
    np.testing.assert_array_equal(
        np.flatnonzero(moved), np.unique(np.asarray(read[:, :4])).astype(int)
    )


def test_bfloat16_is_close_to_float32():
    params, read = sharp(TINY), tokens(2, 10)
    half = dataclasses.replace(TINY, dtype="bfloat16")
    exact, rough = hidden(params, TINY, read), hidden(params, half, read)
    assert rough.dtype == jnp.float32
    exact, rough = jax.device_get((exact, rough))
    assert np.mean(np.abs(exact - rough)) < 0.05
    cache = decoder.empty_cache(half, 2, 10)
    held = jnp.float32 if jax.default_backend() == "cpu" else jnp.bfloat16
    assert cache.k[0][0].dtype == cache.v[1][0].dtype == held
    out, cache = extend(params, half, cache, read, np.array([10, 10]))
    assert np.mean(np.abs(np.asarray(out) - rough)) < 0.02


@pytest.mark.parametrize("unroll", [1, 2])
def test_cast_parameters_are_the_same_decoder(unroll):
    half = dataclasses.replace(TINY, dtype="bfloat16", qkv_bias=True, decode_unroll=unroll)
    params, read = sharp(half), tokens(2, 5)
    cast = jax.jit(decoder.cast, static_argnums=1)(params, half)
    for layer in jax.tree.leaves(cast["layers"], is_leaf=lambda node: "mlp" in node):
        kernels = jax.tree.leaves(layer["mlp"]["up_proj"]["kernel"])
        assert {x.dtype for x in kernels} == {jnp.dtype("bfloat16")}
        assert layer["self_attn"]["q_proj"]["bias"].dtype == jnp.float32
        assert layer["input_layernorm"]["weight"].dtype == jnp.float32
    assert cast["norm"]["weight"].dtype == jnp.float32
    cache, count = decoder.empty_cache(half, 2, 5), np.full(2, 5)
    ours, theirs = (extend(p, half, cache, read, count)[0] for p in (cast, params))
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_segments_of_a_cache():
    cache = decoder.empty_cache(TINY, 3, 10, segment=4)
    assert [x.shape for x in cache.k[1]] == [(3, 2, 8, 4), (3, 2, 8, 4), (3, 2, 8, 2)]
    assert [x.shape for x in cache.v[0]] == [(3, 2, 4, 8), (3, 2, 4, 8), (3, 2, 2, 8)]
    looped = dataclasses.replace(TINY, decode_unroll=1)
    (segments,) = decoder.empty_cache(looped, 3, 10, segment=4).v
    assert [x.shape for x in segments] == [(3, 2, 2, 4, 8), (3, 2, 2, 4, 8), (3, 2, 2, 2, 8)]
    with pytest.raises(ValueError, match="size=0"):
        decoder.empty_cache(TINY, 3, 0)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"kv_heads": 3}, "heads=4: expected a multiple of kv_heads=3"),
        ({"head_dim": 7}, "head_dim=7: expected an even number"),
        ({"activation": "relu"}, "activation='relu'"),
        ({"dtype": "float16"}, "dtype='float16'"),
        ({"layers": 0}, "layers=0"),
        ({"unroll": 0}, "unroll=0: expected 1 to the number of layers, 2"),
        ({"decode_unroll": 3}, "decode_unroll=3"),
        ({"value_heads": -1}, "value_heads=-1"),
        ({"sliding_window": 0}, "sliding_window=0"),
        ({"sliding_layers": (True, False)}, "without sliding_window"),
        ({"local_rope_theta": 10.0}, "without sliding_window"),
        ({"sliding_window": 4, "sliding_layers": (True,)}, "1 entries"),
    ],
)
def test_impossible_configs(change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TINY, **change)


def test_one_trace():
    traced = []

    def counted(params, cache, new, count):
        traced.append(1)
        return decoder.extend(params, TINY, cache, new, count)

    function = jax.jit(counted)
    params, cache = sharp(TINY), decoder.empty_cache(TINY, 2, 12)
    for count in ([1, 0], [3, 3], [0, 2]):
        _, cache = function(params, cache, tokens(2, 3), np.array(count))
    assert len(traced) == 1
