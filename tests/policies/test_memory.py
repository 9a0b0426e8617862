"""What saves memory changes nothing else: remat, scoring in chunks, bfloat16 on float32 weights."""

import dataclasses
import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import envs
from agentrl import policies
from agentrl.policies import chunks, decoder, language, scoring
from agentrl.policies.decoder import DecoderConfig
from agentrl.streams import Rows

SMALL = DecoderConfig(vocab_size=40, width=16, layers=2, heads=2, kv_heads=1, head_dim=8, hidden=32)


def loss(params, config, tokens):
    hidden = decoder.hidden(params, config, tokens)
    scores = jax.nn.log_softmax(decoder.unembed(params, config, hidden))
    return -jnp.mean(jnp.take_along_axis(scores[:, :-1], tokens[:, 1:, None], axis=-1))


def drawn(config, rows=4, length=10):
    params = jax.jit(decoder.init, static_argnums=1)(jax.random.key(0), config)
    tokens = np.random.default_rng(1).integers(0, config.vocab_size, (rows, length))
    return params, tokens.astype(np.int32)


def temporary_bytes(function, *shapes):
    """What a program holds beside its arguments and results, as XLA's buffers are assigned."""
    return jax.jit(function).lower(*shapes).compile().memory_analysis().temp_size_in_bytes


def test_remat_has_the_same_gradients_in_less_memory():
    params, tokens = drawn(SMALL)
    again = dataclasses.replace(SMALL, remat=True)
    grad = jax.jit(jax.grad(loss), static_argnums=1)
    chex.assert_trees_all_close(
        grad(params, SMALL, tokens), grad(params, again, tokens), rtol=0, atol=1e-6
    )

    def kept(config):
        """Bytes that the backward pass is left, parameters and what is outside of layers too."""
        backward = jax.eval_shape(
            lambda p: jax.vjp(lambda p: loss(p, config, tokens), p)[1], params
        )
        return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(backward))

    one, two = (dataclasses.replace(SMALL, layers=n) for n in (1, 2))
    layer = sum(x[0].size * 4 for x in jax.tree.leaves(params["layers"]))
    between = tokens.size * SMALL.width * 4
    grown = kept(dataclasses.replace(two, remat=True)) - kept(dataclasses.replace(one, remat=True))
    assert grown <= layer + between < kept(two) - kept(one)


@pytest.fixture(scope="module")
def policy():
    view = envs.make("FrozenLake-v1")[0].view
    return policies.transformer(view, width=16, layers=1, heads=2, kv_heads=1, hidden=32)


@pytest.fixture(scope="module")
def weights(policy):
    return jax.jit(policy.init)(jax.random.key(0))


def rows_of(policy, legal):
    size, shape = policy.config.vocab_size, (3, 8)
    rng = np.random.default_rng(2)
    tokens = rng.integers(0, size, shape).astype(np.int32)
    kept = rng.random((*shape, size)) < 0.5
    kept = kept | (np.arange(size) == tokens[..., None])
    zero = np.zeros(shape, np.int32)
    return Rows(
        tokens=tokens,
        loss_mask=zero == 0,
        stream=np.arange(3),
        turn=zero,
        span=zero,
        behaviour_logp=zero.astype(np.float32),
        legal=kept if legal else None,
    )


@pytest.mark.parametrize("legal", [False, True])
def test_scores_in_chunks_are_those_of_the_whole(policy, weights, legal, monkeypatch):
    rows = rows_of(policy, legal)

    def total(params):
        scored = policy.score(params, rows)
        return jnp.sum(scored.logp * jnp.arange(8)) + jnp.sum(scored.entropy), scored

    whole = jax.jit(jax.grad(total, has_aux=True))(weights)
    # Seven positions in chunks of two, the last one padded.
    limit = 2 * 3 * policy.config.vocab_size
    chunked = functools.partial(chunks.in_chunks, limit=limit)
    monkeypatch.setattr(language, "in_chunks", chunked)
    parts = jax.jit(jax.grad(lambda params: total(params), has_aux=True))(weights)
    for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(parts), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=2e-6)


def test_chunks_need_less_memory():
    V, D = 4096, 16

    def total(limit, head, hidden, tokens):
        def score(hidden, tokens):
            return scoring.score_logits(hidden @ head, tokens)

        return sum(map(jnp.sum, chunks.in_chunks(score, hidden, tokens, width=V, limit=limit)))

    shapes = [jax.ShapeDtypeStruct(s, jnp.float32) for s in ((D, V), (4, 64, D))]
    tokens = jax.ShapeDtypeStruct((4, 64), jnp.int32)
    used = [
        temporary_bytes(jax.grad(functools.partial(total, limit), argnums=(0, 1)), *shapes, tokens)
        for limit in (None, 4 * 4 * V)
    ]
    # A sixteenth of the logits, and what is as large in both: the head's gradient.
    assert used[1] < 0.25 * used[0]


def test_bfloat16_products_train_float32_weights():
    half = dataclasses.replace(SMALL, dtype="bfloat16")
    params, tokens = drawn(SMALL)
    transform = optax.adamw(1e-5)

    @functools.partial(jax.jit, static_argnums=0)
    def step(config, params):
        value, grads = jax.value_and_grad(loss)(params, config, tokens)
        updates, state = transform.update(grads, transform.init(params), params)
        return value, grads, state, optax.apply_updates(params, updates)

    exact, close = step(SMALL, params), step(half, params)
    for tree in close[1:]:
        kinds = {x.dtype for x in jax.tree.leaves(tree) if jnp.issubdtype(x.dtype, jnp.floating)}
        assert kinds == {jnp.dtype("float32")}
    np.testing.assert_allclose(close[0], exact[0], rtol=2e-3)
    params, exact, close = jax.device_get((params, exact, close))
    norm = jax.jit(optax.tree.norm)
    assert norm(jax.tree.map(np.subtract, exact[1], close[1])) < 0.02 * norm(exact[1])
    # Steps far below bfloat16's resolution are kept.
    moved = jax.tree.map(lambda a, b: np.mean(a != b), params, close[3])
    assert moved["layers"]["mlp"]["up_proj"]["kernel"] > 0.9


NEEDED = np.zeros((3, 8), bool)
NEEDED[0, 3], NEEDED[2, 5:] = True, True


@pytest.mark.parametrize("legal", [False, True])
@pytest.mark.parametrize("opening", [(), (1, 2, 1)])
def test_scores_where_they_are_needed_are_those_of_the_whole(
    policy, weights, legal, opening, monkeypatch
):
    policy = policy._replace(codec=dataclasses.replace(policy.codec, opening=opening))
    rows = rows_of(policy, legal)
    rows.tokens[:, : len(opening)] = opening

    def total(params, needed):
        scored = policy.score(params, rows, needed)
        scored = jax.tree.map(lambda x: jnp.where(NEEDED, x, 0.0), scored)
        return jnp.sum(scored.logp * jnp.arange(8)) + jnp.sum(scored.entropy), scored

    grad = jax.grad(total, has_aux=True)
    whole = jax.jit(lambda params: grad(params, None))(weights)
    monkeypatch.setattr(chunks, "SMALLEST", 3)
    monkeypatch.setattr(chunks, "DIRECT", 0)
    computed, unembed = [], decoder.unembed

    def counted(head, config, hidden, of_head):
        jax.debug.callback(lambda: computed.append(hidden.shape[:2]))
        return unembed(head, config, hidden, of_head)

    monkeypatch.setattr(decoder, "unembed", counted)
    parts = jax.jit(lambda params: grad(params, jnp.asarray(NEEDED)))(weights)
    jax.block_until_ready(parts)
    jax.effects_barrier()
    chex.assert_trees_all_close(whole, parts, rtol=1e-5, atol=2e-6)
    # The most of a row is three positions. Each is computed in both passes.
    assert set(computed) == {(3, 1)} and len(computed) == 2 * 3


def test_other_scores_are_zero(policy, weights):
    out = jax.jit(policy.score)(weights, rows_of(policy, False), NEEDED)
    for values in (out.logp, out.entropy):
        np.testing.assert_array_equal(np.asarray(values) != 0, NEEDED)


def test_large_models_recompute_by_default():
    assert not SMALL.recomputes and dataclasses.replace(SMALL, remat=True).recomputes
    large = dataclasses.replace(SMALL, layers=30, width=576)
    assert large.recomputes and not dataclasses.replace(large, remat=False).recomputes
