"""Parameters over a mesh: where they lie, and that nothing else changes."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from agentrl.devices import placement
from agentrl.policies import decoder, generation
from agentrl.policies.decoder import DecoderConfig
from agentrl.policies.sampling import Sampling
from agentrl.run.mesh import parameter_shardings

CONFIG = DecoderConfig(
    vocab_size=24,
    width=16,
    layers=1,
    heads=4,
    kv_heads=4,
    head_dim=4,
    hidden=32,
    qkv_bias=True,
    value_heads=1,
    lora_rank=2,
)
SIZES = {"data": 2, "fsdp": 2, "tensor": 2}


def test_parameters_lie_by_their_names():
    P = PartitionSpec
    for path, shape, spec in (
        ("embed_tokens/weight", (24, 16), P("tensor", "fsdp")),
        ("layers/self_attn/q_proj/kernel", (2, 16, 16), P(None, "fsdp", "tensor")),
        ("layers/self_attn/q_proj/bias", (2, 16), P(None, "tensor")),
        ("layers/self_attn/o_proj/kernel", (2, 16, 16), P(None, "tensor", "fsdp")),
        ("lora/mlp/down_proj/a", (2, 32, 2), P(None, "tensor", None)),
        ("lora/mlp/down_proj/b", (2, 2, 16), P(None, None, "fsdp")),
        ("norm/weight", (16,), P()),
        ("value_head/kernel", (16, 1), P()),
        ("kernel", (16, 16), P()),
        # Axes in front stay whole, and so does what does not divide.
        ("layers/mlp/up_proj/kernel", (3, 5, 16, 32), P(None, None, "fsdp", "tensor")),
        ("embed_tokens/weight", (25, 16), P(None, "fsdp")),
    ):
        assert placement.parameter_spec(path.split("/"), shape, SIZES) == spec, path


def loss(params, tokens):
    hidden = decoder.hidden(params, CONFIG, tokens)
    scores = jax.nn.log_softmax(decoder.unembed(params, CONFIG, hidden))
    value = decoder.values(params, CONFIG, hidden)
    chosen = jnp.take_along_axis(scores[:, :-1], tokens[:, 1:, None], axis=-1)
    return jnp.mean(jnp.square(value)) - jnp.mean(chosen)


def write(params, tokens):
    rows, length = tokens.shape
    cache = decoder.empty_cache(CONFIG, rows, 2 * length)
    count = jnp.full(rows, length, jnp.int32)
    hidden, cache = decoder.extend(params, CONFIG, cache, tokens, count)
    out = generation.generate(
        params,
        CONFIG,
        cache,
        hidden[:, -1],
        jax.random.key(1),
        sampling=Sampling(),
        max_new_tokens=length,
        end_token=0,
        active=jnp.ones(rows, bool),
    )
    return out.tokens, out.logp, out.cache.v[0][0]


@functools.cache
def drawn():
    params = decoder.init(jax.random.key(0), CONFIG)
    for ab in params["lora"]["mlp"].values():
        ab["b"] = ab["b"] + 0.1
    return params, jax.random.randint(jax.random.key(2), (8, 6), 0, CONFIG.vocab_size)


@functools.cache
def on_one_device():
    params, tokens = drawn()
    return jax.jit(jax.value_and_grad(loss))(params, tokens), jax.jit(write)(params, tokens)


@pytest.mark.parametrize("shape", [(1, 8, 1), (1, 2, 4), (2, 2, 2)], ids=str)
def test_losses_gradients_and_replies_of_a_mesh_are_those_of_one_device(shape):
    """Equal but for the order of float32 sums: 2e-6 of numbers around 1."""
    params, tokens = drawn()
    (value, grads), (written, logp, held) = on_one_device()
    mesh = jax.make_mesh(shape, placement.AXES, axis_types=(AxisType.Auto,) * 3)
    placed = parameter_shardings(mesh, params)
    with jax.set_mesh(mesh):
        there = jax.device_put(params, placed)
        rows = jax.device_put(tokens, NamedSharding(mesh, PartitionSpec(placement.BATCH)))
        ours, slopes = jax.jit(jax.value_and_grad(loss), out_shardings=(None, placed))(there, rows)
        tokens_there, logp_there, held_there = jax.jit(write)(there, rows)
    np.testing.assert_allclose(ours, value, rtol=2e-6)
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=0, atol=2e-6), slopes, grads)
    np.testing.assert_array_equal(tokens_there, written)
    np.testing.assert_allclose(logp_there, logp, atol=2e-6)
    np.testing.assert_allclose(held_there, held, atol=2e-6)
    # Rows of the cache over data and fsdp, its heads over tensor.
    parts = shape[0] * shape[1]
    assert held_there.sharding.shard_shape(held.shape)[:2] == (8 // parts, 4 // shape[2])
