"""Adapters: nothing at first, then what the merged matrices compute."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.policies import decoder, lora
from agentrl.policies.decoder import DecoderConfig
from agentrl.policies.scoring import join, split

PLAIN = DecoderConfig(
    vocab_size=13, width=16, layers=2, heads=2, kv_heads=1, head_dim=8, hidden=24, qkv_bias=True
)
CONFIG = dataclasses.replace(PLAIN, lora_rank=3, lora_alpha=6.0)
TOKENS = jnp.asarray(np.random.default_rng(0).integers(0, 13, (2, 9)), jnp.int32)


def moved(params):
    """B away from 0, biases too."""
    keys = iter(jax.random.split(jax.random.key(1), 100))
    return jax.tree.map(lambda x: x + 0.3 * jax.random.normal(next(keys), x.shape), params)


def test_training_begins_with_the_function_itself():
    params = decoder.init(jax.random.key(0), CONFIG)
    without = {name: value for name, value in params.items() if name != "lora"}
    np.testing.assert_array_equal(
        decoder.logits(params, CONFIG, TOKENS), decoder.logits(without, PLAIN, TOKENS)
    )
    assert jax.tree.structure(without) == jax.tree.structure(decoder.init(jax.random.key(0), PLAIN))


def test_adapters_compute_what_the_merged_matrices_do():
    params = moved(decoder.init(jax.random.key(0), CONFIG))
    adapter = params["lora"]["1"]["mlp"]["up_proj"]
    config, merged = lora.merge(params, CONFIG)
    assert config == dataclasses.replace(PLAIN, lora_alpha=6.0) and "lora" not in merged
    # Equation 3 by hand, alpha / r = 2.
    np.testing.assert_allclose(
        merged["layers"]["1"]["mlp"]["up_proj"]["kernel"],
        params["layers"]["1"]["mlp"]["up_proj"]["kernel"] + 2 * adapter["a"] @ adapter["b"],
        rtol=1e-5,
        atol=1e-6,
    )
    expected = decoder.logits(merged, config, TOKENS)
    np.testing.assert_allclose(decoder.logits(params, CONFIG, TOKENS), expected, atol=2e-4)
    cache = decoder.empty_cache(CONFIG, 2, 9)
    hidden, _ = decoder.extend(params, CONFIG, cache, TOKENS, jnp.full(2, 9))
    np.testing.assert_allclose(decoder.unembed(params, CONFIG, hidden), expected, atol=2e-4)


def test_merging_without_adapters_changes_nothing():
    params = decoder.init(jax.random.key(0), PLAIN)
    assert lora.merge(params, PLAIN) == (PLAIN, params)


def test_what_is_frozen_is_split_off_and_joined():
    params = {"a": jnp.ones(1), "b": jnp.ones(2)}
    trained, frozen = split(params, ("b",))
    assert list(trained) == ["a"] and list(frozen) == ["b"] and join(trained, frozen) == params
    assert split(params, ()) == (params, {}) and join(params, {}) is params


@pytest.mark.parametrize("options", [{"lora_rank": -1}, {"lora_targets": ("norm",)}])
def test_adapters_that_there_are_not(options):
    with pytest.raises(ValueError, match="some of q_proj"):
        dataclasses.replace(CONFIG, **options)
