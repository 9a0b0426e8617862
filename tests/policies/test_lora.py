"""Adapters: nothing at first, then what the merged matrices compute."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.policies import decoder, families, huggingface, lora
from agentrl.policies.decoder import DecoderConfig
from agentrl.policies.scoring import join, split

PLAIN = DecoderConfig(
    vocab_size=13, width=16, layers=2, heads=2, kv_heads=1, head_dim=8, hidden=24, qkv_bias=True
)
CONFIG = dataclasses.replace(PLAIN, lora_rank=3, lora_alpha=6.0)
TOKENS = np.random.default_rng(0).integers(0, 13, (2, 9)).astype(np.int32)
hidden = jax.jit(decoder.hidden, static_argnums=1)
logits = jax.jit(decoder.logits, static_argnums=1)


@functools.cache
def init(config):
    return jax.device_get(jax.jit(decoder.init, static_argnums=1)(jax.random.key(0), config))


def moved(params):
    """B away from 0, biases too."""
    rng = np.random.default_rng(1)
    return jax.tree.map(lambda x: x + 0.3 * rng.normal(size=x.shape).astype(x.dtype), params)


def merge(params, config, role=None):
    """`lora.merge`, the parameters by one program."""
    configs = []

    @jax.jit
    def run(params):
        plain, merged = lora.merge(params, config, role)
        configs.append(plain)
        return merged

    merged = jax.device_get(run(params))
    return configs[0], merged


def test_training_begins_with_the_function_itself():
    params = init(CONFIG)
    without = {name: value for name, value in params.items() if name != "lora"}
    np.testing.assert_array_equal(logits(params, CONFIG, TOKENS), logits(without, PLAIN, TOKENS))
    assert jax.tree.structure(without) == jax.tree.structure(init(PLAIN))


def test_adapters_compute_what_the_merged_matrices_do():
    params = moved(init(CONFIG))
    adapter = {name: x[1] for name, x in params["lora"]["mlp"]["up_proj"].items()}
    config, merged = merge(params, CONFIG)
    assert config == dataclasses.replace(PLAIN, lora_alpha=6.0) and "lora" not in merged
    # Equation 3 by hand, alpha / r = 2.
    np.testing.assert_allclose(
        merged["layers"]["mlp"]["up_proj"]["kernel"][1],
        params["layers"]["mlp"]["up_proj"]["kernel"][1] + 2 * adapter["a"] @ adapter["b"],
        rtol=1e-5,
        atol=1e-6,
    )
    expected = logits(merged, config, TOKENS)
    np.testing.assert_allclose(logits(params, CONFIG, TOKENS), expected, atol=2e-4)

    @jax.jit
    def by_cache(params):
        cache = decoder.empty_cache(CONFIG, 2, 9)
        hidden, _ = decoder.extend(params, CONFIG, cache, TOKENS, jnp.full(2, 9))
        return decoder.unembed(params, CONFIG, hidden)

    np.testing.assert_allclose(by_cache(params), expected, atol=2e-4)


def test_merging_without_adapters_changes_nothing():
    params = init(PLAIN)
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


ROLES = dataclasses.replace(CONFIG, lora_roles=2)
ROLE = np.array([1, 0])


def of_roles():
    """Two roles with adapters of their own, B away from 0, biases too."""
    return moved(init(ROLES))


@functools.partial(jax.jit, static_argnums=1)
def read(params, config, role):
    """Hidden states by the cache, in two pieces, as generation reads."""
    cache = decoder.empty_cache(config, 2, 9)
    first, cache = decoder.extend(params, config, cache, TOKENS[:, :8], jnp.full(2, 8), role)
    last, _ = decoder.step(params, config, cache, TOKENS[:, 8], jnp.ones(2, bool), role)
    return jnp.concatenate([first, last[:, None]], axis=1)


def test_a_row_is_computed_by_the_adapter_of_its_role():
    params = of_roles()
    out = hidden(params, ROLES, TOKENS, role=ROLE)
    for row, role in enumerate([1, 0]):
        config, alone = lora.of_role(params, ROLES, role)
        assert config == CONFIG
        np.testing.assert_allclose(out[row], hidden(alone, config, TOKENS)[row], atol=1e-5)
        plain, merged = merge(params, ROLES, role)
        expected = hidden(merged, plain, TOKENS)[row]
        np.testing.assert_allclose(out[row], expected, atol=2e-4)
    np.testing.assert_allclose(read(params, ROLES, ROLE), out, atol=1e-5)


def test_equal_adapters_of_two_roles_are_one():
    shared = moved(init(CONFIG))
    twice = shared | {"lora": jax.tree.map(lambda x: np.stack([x, x], 1), shared["lora"])}
    for function in (lambda p, c, r: hidden(p, c, TOKENS, role=r), read):
        np.testing.assert_allclose(
            function(twice, ROLES, ROLE), function(shared, CONFIG, None), atol=1e-5
        )


def test_a_row_has_no_gradient_on_the_other_roles_adapter():
    params = of_roles()

    def total(adapters):
        out = hidden(params | {"lora": adapters}, ROLES, TOKENS, role=np.array([1, 1]))
        return jnp.sum(out**2)

    grads = jax.jit(jax.grad(total))(params["lora"])
    for leaf in jax.tree.leaves(jax.device_get(grads)):
        assert (leaf[:, 0] == 0).all() and (leaf[:, 1] != 0).any(axis=(1, 2)).all()


def test_roles_begin_apart_and_as_the_function_itself():
    params = init(ROLES)
    a = params["lora"]["mlp"]["up_proj"]["a"]
    assert a.shape == (2, 2, 16, 3) and len(np.unique(a)) == a.size
    np.testing.assert_array_equal(
        logits(params, ROLES, TOKENS, ROLE), logits(params, PLAIN, TOKENS)
    )


def test_one_roles_model_is_written_and_read(tmp_path):
    params = of_roles()
    huggingface.save(tmp_path / "executor", ROLES, params, role=1)
    config, read_back = huggingface.load(tmp_path / "executor")
    assert not families.differences(config, ROLES)
    ours = logits(params, ROLES, TOKENS, np.array([1, 1]))
    np.testing.assert_allclose(logits(read_back, config, TOKENS), ours, atol=2e-4)
    with pytest.raises(ValueError, match="give the role"):
        huggingface.save(tmp_path / "both", ROLES, params)


def test_roles_that_there_are_not():
    params = init(ROLES)
    with pytest.raises(ValueError, match="give the role of each row, 0 to 1"):
        logits(params, ROLES, TOKENS)
    with pytest.raises(ValueError, match="give the role of each row"):
        lora.merge(params, ROLES)
    with pytest.raises(ValueError, match="role=2: expected 0 to 1"):
        lora.merge(params, ROLES, 2)
    for options in ({"lora_roles": 0}, {"lora_rank": 0, "lora_roles": 2}):
        with pytest.raises(ValueError, match="one adapter for all"):
            dataclasses.replace(CONFIG, **options)
