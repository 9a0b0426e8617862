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
    params = decoder.init(jax.random.key(0), config)
    return params, jax.random.randint(jax.random.key(1), (rows, length), 0, config.vocab_size)


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


def rows_of(policy, legal):
    size, shape = policy.config.vocab_size, (3, 8)
    tokens = jax.random.randint(jax.random.key(2), shape, 0, size)
    kept = jax.random.bernoulli(jax.random.key(3), 0.5, (*shape, size))
    kept = kept | (jnp.arange(size) == tokens[..., None])
    zero = jnp.zeros(shape, jnp.int32)
    return Rows(
        tokens=tokens,
        loss_mask=zero == 0,
        stream=jnp.arange(3),
        turn=zero,
        span=zero,
        behaviour_logp=zero.astype(jnp.float32),
        legal=kept if legal else None,
    )


@pytest.mark.parametrize("legal", [False, True])
def test_scores_in_chunks_are_those_of_the_whole(policy, legal, monkeypatch):
    params = policy.init(jax.random.key(0))
    rows = rows_of(policy, legal)

    def total(params):
        scored = policy.score(params, rows)
        return jnp.sum(scored.logp * jnp.arange(8)) + jnp.sum(scored.entropy), scored

    whole = jax.jit(jax.grad(total, has_aux=True))(params)
    # Seven positions in chunks of two, the last one padded.
    limit = 2 * 3 * policy.config.vocab_size
    chunked = functools.partial(chunks.in_chunks, limit=limit)
    monkeypatch.setattr(language, "in_chunks", chunked)
    parts = jax.jit(jax.grad(lambda params: total(params), has_aux=True))(params)
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
    norm = optax.tree.norm(jax.tree.map(jnp.subtract, exact[1], close[1]))
    assert norm < 0.02 * optax.tree.norm(exact[1])
    # Steps far below bfloat16's resolution are kept.
    moved = jax.tree.map(lambda a, b: jnp.mean(a != b), params, close[3])
    assert moved["layers"]["mlp"]["up_proj"]["kernel"] > 0.9


NEEDED = np.zeros((3, 8), bool)
NEEDED[0, 3], NEEDED[2, 5:] = True, True


@pytest.mark.parametrize("legal", [False, True])
@pytest.mark.parametrize("opening", [(), (1, 2, 1)])
def test_scores_where_they_are_needed_are_those_of_the_whole(policy, legal, opening, monkeypatch):
    policy = policy._replace(codec=dataclasses.replace(policy.codec, opening=opening))
    params, rows = policy.init(jax.random.key(0)), rows_of(policy, legal)
    rows = rows.replace(tokens=rows.tokens.at[:, : len(opening)].set(jnp.asarray(opening, int)))

    def total(params, needed):
        scored = policy.score(params, rows, needed)
        scored = jax.tree.map(lambda x: jnp.where(NEEDED, x, 0.0), scored)
        return jnp.sum(scored.logp * jnp.arange(8)) + jnp.sum(scored.entropy), scored

    grad = jax.grad(total, has_aux=True)
    whole = jax.jit(lambda params: grad(params, None))(params)
    monkeypatch.setattr(chunks, "SMALLEST", 3)
    monkeypatch.setattr(chunks, "DIRECT", 0)
    computed, unembed = [], decoder.unembed

    def counted(head, config, hidden):
        jax.debug.callback(lambda: computed.append(hidden.shape[:2]))
        return unembed(head, config, hidden)

    monkeypatch.setattr(decoder, "unembed", counted)
    parts = jax.jit(lambda params: grad(params, jnp.asarray(NEEDED)))(params)
    jax.block_until_ready(parts)
    jax.effects_barrier()
    chex.assert_trees_all_close(whole, parts, rtol=1e-5, atol=2e-6)
    # The most of a row is three positions. Each is computed in both passes.
    assert set(computed) == {(3, 1)} and len(computed) == 2 * 3


def test_other_scores_are_zero(policy):
    out = policy.score(policy.init(jax.random.key(0)), rows_of(policy, False), jnp.asarray(NEEDED))
    for values in (out.logp, out.entropy):
        np.testing.assert_array_equal(np.asarray(values) != 0, NEEDED)


def test_large_models_recompute_by_default():
    assert not SMALL.recomputes and dataclasses.replace(SMALL, remat=True).recomputes
    large = dataclasses.replace(SMALL, layers=30, width=576)
    assert large.recomputes and not dataclasses.replace(large, remat=False).recomputes
