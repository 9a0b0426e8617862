"""Role-gated adapters: the worked numbers, the two limits, and what a new role changes."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.policies import block, decoder, gated, lora
from agentrl.policies.decoder import DecoderConfig

PLAIN = DecoderConfig(vocab_size=13, width=16, layers=2, heads=2, kv_heads=1, head_dim=8, hidden=24)
GATED = dataclasses.replace(
    PLAIN,
    lora_rank=4,
    lora_targets=("q_proj", "down_proj"),
    lora_blocks=2,
    lora_alpha=6.0,
    lora_roles=3,
    lora_profiles=("a poet of the sea", "a cook", "a guard of the gate"),
)
MORE = dataclasses.replace(GATED, lora_added=1, lora_added_for=(2,))
TOKENS = np.random.default_rng(0).integers(0, 13, (3, 9)).astype(np.int32)
ROLE = np.array([0, 1, 2])
hidden = jax.jit(decoder.hidden, static_argnums=1)


@functools.cache
def init(config):
    return jax.device_get(jax.jit(decoder.init, static_argnums=1)(jax.random.key(0), config))


def moved(params, entries=lora.ENTRIES):
    """These entries changed at random, B away from 0."""
    rng = np.random.default_rng(1)

    def one(x):
        return x + 0.3 * rng.normal(size=x.shape).astype(x.dtype)

    return {k: jax.tree.map(one, v) if k in entries else v for k, v in params.items()}


def grown(params):
    """The same adapters in a policy with a block more."""
    return params | {"lora_added": init(MORE)["lora_added"]}


def test_the_worked_numbers(monkeypatch):
    """e = [1, 0], three blocks of rank 1, alpha 2."""
    monkeypatch.setattr(gated, "embeddings", lambda profiles: np.array([[1.0, 0.0]], np.float32))
    config = dataclasses.replace(
        GATED, lora_rank=3, lora_blocks=3, lora_alpha=2.0, lora_roles=1, lora_profiles=("one",)
    )
    gate = jnp.array([[2.0, 0, 0], [0, 1, 0]])
    g = gated.blocks_of(gate, config, jnp.zeros(1, jnp.int32))
    np.testing.assert_allclose(g, [[0.786986, 0.106507, 0.106507]], atol=1e-6)
    ab = {"a": jnp.array([[1.0, 0, 1], [0, 1, 1]]), "b": jnp.array([[1.0, 0], [0, 1], [1, -1]])}
    layer = {"mlp": {"up_proj": {"kernel": jnp.zeros((2, 2))}}}
    parts = [{"mlp": {"up_proj": x}} for x in (ab, {"gate": gate})]
    made = lora.attach(layer, parts, config, jnp.zeros(1, jnp.int32))["mlp"]["up_proj"]
    np.testing.assert_allclose(
        block.dense(jnp.array([[1.0, 2.0]]), made), [[2.213014, -0.213014]], atol=1e-6
    )


def test_one_block_is_one_adapter_for_all():
    config = dataclasses.replace(GATED, lora_blocks=1)
    params = moved(init(config))
    shared = dataclasses.replace(GATED, lora_blocks=0, lora_profiles=(), lora_roles=1)
    expected = hidden({k: v for k, v in params.items() if k != "lora_gate"}, shared, TOKENS)
    np.testing.assert_allclose(hidden(params, config, TOKENS, role=ROLE), expected, atol=1e-5)


def test_gates_of_0_and_1_are_an_adapter_per_role():
    config = dataclasses.replace(
        GATED, lora_roles=2, lora_profiles=("left", "right"), lora_blocks=2
    )
    params = moved(init(config))
    # W_g e is 100 for the block of the role's number, 0 for the other.
    inverse = np.linalg.pinv(gated.embeddings(config.lora_profiles)) * 100
    params["lora_gate"] = jax.tree.map(
        lambda x: np.broadcast_to(inverse, x.shape).astype(np.float32), params["lora_gate"]
    )
    apart = dataclasses.replace(config, lora_rank=2, lora_blocks=0, lora_profiles=())

    def by_role(ab):
        a = ab["a"].reshape(2, -1, 2, 2).swapaxes(1, 2)
        return {"a": a, "b": ab["b"].reshape(2, 2, 2, -1)}

    own = jax.tree.map(by_role, params["lora"], is_leaf=lambda x: "a" in x)
    plain = {k: v for k, v in params.items() if k not in lora.ENTRIES} | {"lora": own}
    role = np.array([1, 0, 1])
    np.testing.assert_allclose(
        hidden(params, config, TOKENS, role=role),
        hidden(plain, apart, TOKENS, role=role),
        atol=1e-5,
    )


def test_blocks_that_are_added_change_nothing_at_first():
    params = moved(init(GATED))
    before = hidden(params, GATED, TOKENS, role=ROLE)
    np.testing.assert_allclose(hidden(grown(params), MORE, TOKENS, role=ROLE), before, atol=5e-6)


def test_blocks_that_are_trained_leave_old_roles_as_they_were():
    start = grown(moved(init(GATED)))
    before = hidden(start, MORE, TOKENS, role=ROLE)
    after = hidden(moved(start, ("lora_added",)), MORE, TOKENS, role=ROLE)
    np.testing.assert_array_equal(after[:2], before[:2])
    assert np.abs(after[2] - before[2]).max() > 1e-2
    # Fusion, the gates alone, moves them.
    fused = hidden(moved(start, ("lora_gate",)), MORE, TOKENS, role=ROLE)
    assert (np.abs(fused - before).max(axis=(1, 2)) > 1e-4).all()


@functools.partial(jax.jit, static_argnums=2)
def slopes(adapters, rest, config, tokens, role):
    def total(adapters):
        out = decoder.hidden(rest | adapters, config, tokens, role=role)
        return jnp.sum(jnp.cos(out + jnp.arange(out.shape[-1])))

    return jax.grad(total)(adapters)


def test_what_a_new_role_reads_has_gradients_of_that_role_alone():
    params = moved(grown(init(GATED)))
    adapters = {name: params[name] for name in lora.ENTRIES}
    old = jax.device_get(slopes(adapters, params, MORE, TOKENS, np.array([0, 1, 0])))
    assert not any(x.any() for x in jax.tree.leaves(old["lora_added"]))
    assert all(x.any() for x in jax.tree.leaves((old["lora"], old["lora_gate"])))
    both = jax.device_get(slopes(adapters, params, MORE, TOKENS, ROLE))
    alone = jax.device_get(slopes(adapters, params, MORE, TOKENS[2:], ROLE[2:]))
    jax.tree.map(
        functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5),
        both["lora_added"],
        alone["lora_added"],
    )


def test_one_roles_adapter_is_what_is_merged():
    params = moved(grown(init(GATED)))
    out = hidden(params, MORE, TOKENS, role=ROLE)
    for role in range(3):
        config, merged = lora.merge(params, MORE, role)
        np.testing.assert_allclose(out[role], hidden(merged, config, TOKENS)[role], atol=2e-4)
        assert not set(merged) & set(lora.ENTRIES)


def test_generation_weights_blocks_as_learning_does():
    params = moved(grown(init(GATED)))

    @jax.jit
    def read(params):
        params = decoder.cast(params, MORE)
        cache = decoder.empty_cache(MORE, 3, 9)
        return decoder.extend(params, MORE, cache, TOKENS, jnp.full(3, 9), ROLE)[0]

    np.testing.assert_allclose(read(params), hidden(params, MORE, TOKENS, role=ROLE), atol=1e-5)


def test_profiles_that_share_words_are_near():
    table = gated.embeddings(("a poet of the sea", "a poet of the woods", "one guard"))
    np.testing.assert_allclose(np.linalg.norm(table, axis=1), 1, rtol=1e-6)
    assert table[0] @ table[1] > 0.7 > 0.4 > abs(table[0] @ table[2])
    # A digest of its bytes' signs: the same in every process and version.
    assert "".join("+-"[int(x < 0)] for x in gated.embeddings(("poet",))[0][:12]) == "--+-+-+--+--"


def test_entropies_and_distances():
    weights = np.array([[1.0, 0, 0], [0, 0.5, 0.5]])
    entropy, apart = gated.distances(weights)
    np.testing.assert_allclose(entropy, [0, np.log(2)], atol=1e-6)
    np.testing.assert_allclose(apart, [[0, 1], [1, 0]])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"lora_blocks": 3}, "expected a divisor of a rank above 0"),
        ({"lora_profiles": ("one",)}, "for each of lora_roles=3"),
        ({"lora_blocks": 0}, "set lora_blocks above 0"),
        ({"lora_added": 1}, "which of the roles 0 to 2 read them"),
        ({"lora_added": 1, "lora_added_for": (3,)}, "which of the roles 0 to 2 read them"),
    ],
)
def test_gates_that_there_are_not(options, told):
    with pytest.raises(ValueError, match=told):
        dataclasses.replace(GATED, **options)
