"""Stacked layers: the loop over them, unrolled or not, is the layers one after another."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.policies import decoder, generation, layers
from agentrl.policies.attention import RopeScaling
from agentrl.policies.cache import decode_unroll
from agentrl.policies.decoder import DecoderConfig
from agentrl.policies.layers import Run
from agentrl.policies.sampling import Sampling

TINY = DecoderConfig(
    vocab_size=23, width=16, layers=3, heads=4, kv_heads=2, head_dim=8, hidden=24, value_heads=1
)
GEMMA = dataclasses.replace(TINY, layers=5, norm_plus_one=True, post_norms=True, sliding_window=4)
CONFIGS = {
    "llama": TINY,
    # The first layers without a window.
    "qwen2": dataclasses.replace(
        TINY, layers=5, qkv_bias=True, sliding_window=3, sliding_layers=(False,) * 2 + (True,) * 3
    ),
    "gemma2": dataclasses.replace(
        GEMMA, attention_soft_cap=5.0, sliding_layers=(True, False, True, False, True)
    ),
    "gemma3": dataclasses.replace(
        GEMMA,
        layers=6,
        qk_norm=True,
        sliding_layers=(True, True, False) * 2,
        local_rope_theta=100.0,
        rope_scaling=RopeScaling(8.0),
    ),
    "adapters": dataclasses.replace(TINY, lora_rank=2, lora_roles=2),
    "remat": dataclasses.replace(TINY, remat=True),
}
ROLE = np.array([0, 1, 1])
TOKENS = np.random.default_rng(0).integers(0, 23, (3, 12)).astype(np.int32)


@functools.cache
def loose(config):
    """Random parameters, adapters and biases too."""
    drawn = jax.device_get(jax.jit(decoder.init, static_argnums=1)(jax.random.key(0), config))
    rng = np.random.default_rng(1)
    return jax.tree.map(lambda x: x + np.float32(0.3 * rng.normal(size=x.shape)), drawn)


def one_after_another(block, carry, parts, kinds, **_):
    """`layers.apply` as a loop in Python over the slices of the stacked arrays."""
    number = 0
    for run, part in zip(layers.runs(kinds), parts, strict=True):
        for repeat in range(run.repeats):
            for j in range(run.period):
                index = repeat if run.period == 1 else (repeat, j)
                layer = jax.tree.map(lambda x, index=index: x[index], part)
                carry = block(kinds[number], layer, jnp.int32(number), carry)
                number += 1
    assert number == len(kinds)
    return carry


def test_runs_of_kinds():
    assert layers.runs("aaaa") == (Run(0, 1, 4),)
    assert layers.runs("a") == (Run(0, 1, 1),)
    assert layers.runs("ababab") == (Run(0, 2, 3),)
    assert layers.runs("aabbb") == (Run(0, 1, 2), Run(2, 1, 3))
    assert layers.runs("abc") == (Run(0, 1, 1), Run(1, 1, 1), Run(2, 1, 1))
    # Gemma 3: five layers with a window, one without; the last two are left.
    assert layers.runs(("lllllg" * 5)[:26]) == (Run(0, 6, 4), Run(24, 1, 2))
    # Gemma 2 with an odd number of layers.
    assert layers.runs("lglgl") == (Run(0, 2, 2), Run(4, 1, 1))


def test_split_keeps_every_layer_in_order():
    stacked = {"x": np.arange(26 * 3).reshape(26, 3)}
    kinds = ("lllllg" * 5)[:26]
    parts = layers.split(stacked, kinds)
    assert [part["x"].shape for part in parts] == [(4, 6, 3), (2, 3)]
    whole = np.concatenate([part["x"].reshape(-1, 3) for part in parts])
    np.testing.assert_array_equal(whole, stacked["x"])


def assert_close(ours, expected):
    """Equal but for the order of float32 sums: 5e-5 of the array's largest number."""
    np.testing.assert_allclose(ours, expected, rtol=0, atol=5e-5 * np.abs(expected).max())


def outputs(config, params):
    """Loss, hidden states and gradients of whole rows."""

    def loss(params):
        hidden = decoder.hidden(params, config, TOKENS, role=ROLE)
        scores = decoder.unembed(params, config, hidden)
        values = decoder.values(params, config, hidden)
        return jnp.mean(scores**2) + jnp.mean(values**2), hidden

    return jax.jit(jax.value_and_grad(loss, has_aux=True))(params)


@pytest.mark.parametrize("name", CONFIGS)
def test_hidden_states_and_gradients_are_those_of_one_layer_after_another(name, monkeypatch):
    config = CONFIGS[name]
    params = loose(config)
    # Adapters are further arrays of a layer. Two layers at a time are whole periods of three.
    unrolls = {"llama": (1, 2, 3), "adapters": (1,), "gemma3": (1,)}.get(name, (1, 2))
    found = [outputs(dataclasses.replace(config, unroll=n), params) for n in unrolls]
    monkeypatch.setattr(decoder.layers, "apply", one_after_another)
    expected = outputs(config, params)
    for ours in found:
        jax.tree.map(assert_close, ours, expected)


def written(config, params):
    """Hidden states of a prompt, and a reply, in a cache of several segments."""
    cache = decoder.empty_cache(config, 3, 24, segment=12)
    count = np.array([12, 5, 7])
    hidden, cache = decoder.extend(params, config, cache, TOKENS, count, ROLE)
    out = generation.generate(
        params,
        config,
        cache,
        hidden[:, 4],
        jax.random.key(1),
        sampling=Sampling(),
        max_new_tokens=9,
        end_token=0,
        active=jnp.ones(3, bool),
        role=ROLE,
    )
    return hidden[:, :5], out.tokens, out.logp, out.hidden, out.cache.length


# Where nothing is learnt, nothing is computed anew.
@pytest.mark.parametrize("name", [name for name in CONFIGS if name != "remat"])
def test_replies_are_the_same_with_a_loop_over_layers_and_without(name):
    config = CONFIGS[name]
    params = loose(config)
    run = jax.jit(written, static_argnums=0)
    expected = run(dataclasses.replace(config, decode_unroll=config.layers), params)
    for unroll in (1, 2) if name == "llama" else (1,):
        ours = run(dataclasses.replace(config, decode_unroll=unroll), params)
        jax.tree.map(assert_close, ours, expected)


def test_a_loop_is_compiled_once_for_any_number_of_layers():
    """The program has as many operations with 3 layers as with 9, but for what decoding on a CPU
    has for each matrix: its slice, and a branch with its product."""

    def operations(count):
        config = dataclasses.replace(TINY, layers=count, unroll=1, decode_unroll=1)
        shapes = jax.eval_shape(functools.partial(decoder.init, config=config), jax.random.key(0))
        programs = (functools.partial(outputs, config), functools.partial(written, config))
        return [jax.jit(p).lower(shapes).as_text().count(" = ") for p in programs]

    (learnt, decoded), (learnt_9, decoded_9) = operations(3), operations(9)
    assert learnt_9 == learnt
    matrices = 7 * 6 if jax.default_backend() == "cpu" else 0
    assert decoded_9 - decoded <= 8 * matrices


def test_only_models_of_more_than_four_layers_are_computed_in_a_loop():
    for count, unroll, expected in ((4, None, 4), (5, None, 1), (4, 1, 1), (9, 3, 3)):
        config = dataclasses.replace(TINY, layers=count, decode_unroll=unroll)
        assert config.layers_per_iteration(unroll) == decode_unroll(config) == expected


def test_initial_values_of_a_layer_depend_on_its_number():
    config = dataclasses.replace(TINY, layers=5)
    params = jax.jit(decoder.init, static_argnums=1)(jax.random.key(0), config)
    kernel = np.asarray(params["layers"]["mlp"]["up_proj"]["kernel"])
    assert kernel.shape == (5, 16, 24)
    # Independent draws: no two layers are correlated.
    np.testing.assert_allclose(np.corrcoef(kernel.reshape(5, -1)), np.eye(5), atol=0.2)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 7, 64])
def test_bfloat16_products_summed_in_float32(rows, turned):
    """Product and gradients of arrays without rounding errors in bfloat16 are those of float32."""
    rng = np.random.default_rng(rows)
    x, matrix, g = (
        rng.integers(-4, 5, shape).astype("f4") for shape in ((rows, 24), (24, 40), (rows, 40))
    )
    exact = x @ matrix
    by_x, by_matrix = g @ matrix.T, x.T @ g
    given = matrix.T if turned else matrix

    def both(x, matrix, g):
        out, back = jax.vjp(lambda x, matrix: layers.summed_wide(x, matrix, turned), x, matrix)
        return out, *back(g)

    out, ours, of_matrix = jax.jit(both)(jnp.asarray(x, jnp.bfloat16), given, g)
    assert out.dtype == of_matrix.dtype == jnp.float32 and ours.dtype == jnp.bfloat16
    np.testing.assert_array_equal(out, exact)
    np.testing.assert_array_equal(ours, by_x.astype(jnp.bfloat16))
    np.testing.assert_array_equal(of_matrix, by_matrix.T if turned else by_matrix)


@pytest.mark.parametrize(("tied", "rows"), [(False, 3), (True, 3), (True, 1)])
def test_gradients_in_bfloat16_are_close_to_those_in_float32(tied, rows):
    """For every parameter, within a loop over the layers and with the logits of odd rows; of one
    row with one key head, too, whose keys are the turned result of a product."""
    config = dataclasses.replace(TINY, tie_embeddings=tied, unroll=1, kv_heads=1 + (rows > 1))
    params = loose(config)

    def gradient(dtype):
        c = dataclasses.replace(config, dtype=dtype)

        def loss(params):
            hidden = decoder.hidden(params, c, TOKENS[:rows, :11])
            return jnp.mean(jax.nn.log_softmax(decoder.unembed(params, c, hidden))[..., 0])

        return jax.device_get(jax.jit(jax.grad(loss))(params))

    exact, rough = gradient("float32"), gradient("bfloat16")
    for (path, a), b in zip(jax.tree.leaves_with_path(exact), jax.tree.leaves(rough), strict=True):
        assert b.dtype == np.float32
        assert np.linalg.norm(a - b) <= 0.1 * np.linalg.norm(a) + 1e-6, jax.tree_util.keystr(path)
