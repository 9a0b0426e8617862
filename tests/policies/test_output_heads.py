"""Output heads: mixed by weights, alone by rows, and apart in their gradients."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import losses
from agentrl.policies import decoder, output_heads
from agentrl.policies.decoder import DecoderConfig

PLAIN = DecoderConfig(vocab_size=13, width=16, layers=2, heads=2, kv_heads=1, head_dim=8, hidden=24)
CONFIG = dataclasses.replace(PLAIN, output_heads=2, head_weights=(0.25, 0.75))
TOKENS = np.random.default_rng(0).integers(0, 13, (4, 9)).astype(np.int32)


@functools.cache
def params():
    """Heads away from where they begin."""
    made = jax.device_get(jax.jit(decoder.init, static_argnums=1)(jax.random.key(0), CONFIG))
    made["output_heads"]["kernel"] = made["output_heads"]["kernel"] * 300
    return made


@functools.partial(jax.jit, static_argnums=1)
def logits(params, config, head=None):
    return decoder.unembed(params, config, decoder.hidden(params, config, TOKENS), head)


def of_weights(*weights):
    return dataclasses.replace(CONFIG, head_weights=weights)


def test_the_published_mixture():
    """softmax(.25 [2, 0, 1] + .75 [0, 2, 1]) = [.186324, .50648, .307196]."""
    kernel = jnp.array([[[2.0, 0.0, 1.0]], [[0.0, 2.0, 1.0]]])
    said = output_heads.logits(kernel, jnp.ones((1, 1)), (0.25, 0.75))
    np.testing.assert_allclose(jax.nn.softmax(said)[0], [0.186324, 0.50648, 0.307196], atol=1e-6)


def test_the_published_losses_of_two_heads():
    """Margins of 1.5 and -0.5, each of its head's pair; their sum is what is minimised."""
    margins = np.array([[1.5], [0.0], [-0.5], [0.0]], np.float32)
    found = losses.dpo(margins, jnp.zeros((4, 1)), beta=0.1)
    np.testing.assert_allclose(found, [0.620957, 0.71846], atol=1e-6)
    np.testing.assert_allclose(found.sum(), 1.339417, atol=1e-6)


def test_heads_begin_as_the_decoder_but_for_a_little_noise():
    made = jax.jit(decoder.init, static_argnums=1)(jax.random.key(0), CONFIG)
    noise = np.asarray(made["output_heads"]["kernel"])
    assert noise.shape == (2, 16, 13)
    np.testing.assert_allclose(noise.std(axis=(1, 2)), 1e-3, rtol=0.2)
    assert (noise[0] != noise[1]).all()
    plain = jax.jit(decoder.init, static_argnums=1)(jax.random.key(0), PLAIN)
    del made["output_heads"]
    jax.tree.map(np.testing.assert_array_equal, made, plain)


def test_the_mixture_is_of_logits_and_one_weight_is_that_head():
    alone = [logits(params(), CONFIG, jnp.full((4, 9), head)) for head in range(2)]
    assert np.abs(alone[0] - alone[1]).max() > 0.1
    mixture = 0.25 * alone[0] + 0.75 * alone[1]
    np.testing.assert_allclose(logits(params(), CONFIG), mixture, atol=1e-5)
    np.testing.assert_allclose(logits(params(), CONFIG, jnp.full((4, 9), -1)), mixture, atol=1e-5)
    np.testing.assert_allclose(logits(params(), of_weights(1.0, 0.0)), alone[0], atol=1e-6)
    # Equal weights are the default.
    half = logits(params(), dataclasses.replace(CONFIG, head_weights=()))
    np.testing.assert_allclose(half, (alone[0] + alone[1]) / 2, atol=1e-5)


def test_rows_of_different_heads_in_one_pass():
    head = jnp.array([0, 1, -1, 1])
    found = logits(params(), CONFIG, jnp.broadcast_to(head[:, None], (4, 9)))
    for row, own in enumerate(head):
        alone = logits(params(), CONFIG, jnp.full((4, 9), own))
        np.testing.assert_allclose(found[row], alone[row], atol=1e-5)


def test_one_head_without_a_difference_is_the_decoder():
    one = dataclasses.replace(PLAIN, output_heads=1)
    plain = {name: x for name, x in params().items() if name != "output_heads"}
    same = plain | {"output_heads": {"kernel": np.zeros((1, 16, 13), np.float32)}}
    expected = logits(plain, PLAIN)
    np.testing.assert_array_equal(logits(same, one), expected)
    np.testing.assert_array_equal(logits(same, one, jnp.zeros((4, 9), jnp.int32)), expected)


def test_a_head_has_no_gradient_from_the_other_heads_pairs():
    """Exactly zero, as is that of what is not read."""
    read, told = TOKENS[:, :-1], TOKENS[:, 1:]

    def loss(kernel, head):
        own = params() | {"output_heads": {"kernel": kernel}}
        hidden = decoder.hidden(own, CONFIG, read)
        said = jax.nn.log_softmax(decoder.unembed(own, CONFIG, hidden, head))
        logp = jnp.take_along_axis(said, told[..., None], axis=-1)[..., 0]
        return jnp.sum(losses.dpo(logp, jnp.zeros_like(logp)))

    slope = jax.jit(jax.grad(loss))
    kernel = params()["output_heads"]["kernel"]
    pairs = np.array([0, 0, 1, 1])
    for only in range(2):
        of_one = np.asarray(slope(kernel, jnp.full((4, 8), only)))
        assert np.abs(of_one[only]).max() > 1e-3 and not of_one[1 - only].any()
    both = np.asarray(slope(kernel, jnp.broadcast_to(pairs[:, None], (4, 8))))
    assert both[0].any() and both[1].any()
    of_mixture = np.asarray(slope(kernel, jnp.full((4, 8), -1)))
    np.testing.assert_allclose(3 * of_mixture[0], of_mixture[1], atol=1e-5)


def test_generation_and_export_have_the_mixed_matrix():
    expected = logits(params(), CONFIG)
    cast = jax.jit(decoder.cast, static_argnums=1)(params(), CONFIG)
    assert cast["output_heads"]["kernel"].shape == (1, 16, 13)

    @jax.jit
    def by_cache(params):
        params = decoder.cast(params, CONFIG)
        cache = decoder.empty_cache(CONFIG, 4, 9)
        hidden, _ = decoder.extend(params, CONFIG, cache, TOKENS, jnp.full(4, 9))
        return decoder.unembed(params, CONFIG, hidden)

    np.testing.assert_allclose(by_cache(params()), expected, atol=1e-4)
    config, merged = output_heads.merge(CONFIG, params())
    assert config == dataclasses.replace(PLAIN, tie_embeddings=False)
    assert "output_heads" not in merged
    np.testing.assert_allclose(logits(merged, config), expected, atol=1e-4)
    assert output_heads.merge(PLAIN, merged) == (PLAIN, merged)


@pytest.mark.parametrize(
    ("heads", "weights"), [(-1, ()), (0, (1.0,)), (2, (1.0,)), (2, (0.7, 0.7))]
)
def test_heads_and_weights_that_do_not_fit(heads, weights):
    with pytest.raises(ValueError, match="output_heads="):
        dataclasses.replace(PLAIN, output_heads=heads, head_weights=weights)
