"""Reading in blocks: the states of reading at once, at the cost of the longest text there is."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.policies import decoder, prefill
from agentrl.policies.decoder import DecoderConfig

TINY = DecoderConfig(vocab_size=13, width=16, layers=2, heads=2, kv_heads=1, head_dim=8, hidden=24)
ROWS, LENGTH, SIZE = 4, 10, 24
BEFORE = jnp.array([3, 0, 5, 2])


def caches(config, params):
    """A cache whose rows have read BEFORE tokens, and further tokens."""
    cache = decoder.empty_cache(config, ROWS, SIZE)
    tokens = jax.random.randint(jax.random.key(1), (ROWS, 5 + LENGTH), 0, config.vocab_size)
    return decoder.extend(params, config, cache, tokens[:, :5], BEFORE)[1], tokens[:, 5:]


@pytest.mark.parametrize("unroll", [None, 1])
@pytest.mark.parametrize("counts", [(10, 0, 7, 3), (4, 4, 4, 4), (0, 0, 1, 0), (0, 0, 0, 0)])
def test_blocks_read_what_is_read_at_once(unroll, counts, monkeypatch):
    config = dataclasses.replace(TINY, decode_unroll=unroll)
    params, count = decoder.init(jax.random.key(0), config), jnp.asarray(counts)
    params = jax.tree.map(lambda x: x + 0.1, params)
    cache, tokens = caches(config, params)
    hidden, whole = decoder.extend(params, config, cache, tokens, count)
    blocks = []
    extend = decoder.extend

    def counted(params, config, cache, tokens, count, role=None):
        jax.debug.callback(lambda: blocks.append(tokens.shape[1]))
        return extend(params, config, cache, tokens, count, role)

    monkeypatch.setattr(decoder, "extend", counted)
    # What stands after a row's tokens may not matter.
    poisoned = jnp.where(jnp.arange(LENGTH) < count[:, None], tokens, 11)
    last, parts = jax.jit(
        lambda params, count: prefill.read(params, config, cache, poisoned, count, block=3)
    )(params, count)
    jax.block_until_ready(last)
    jax.effects_barrier()
    # Ten positions are four blocks of three.
    assert blocks == [3] * -(-max(counts) // 3)
    some = np.asarray(count > 0)
    np.testing.assert_allclose(
        last[some], hidden[np.arange(ROWS), np.maximum(counts, 1) - 1][some], atol=1e-5
    )
    np.testing.assert_array_equal(parts.length, BEFORE + count)
    # The caches continue alike.
    monkeypatch.undo()
    token, active = jnp.array([5, 6, 7, 8]), jnp.ones(ROWS, bool)
    ours, theirs = (decoder.step(params, config, x, token, active)[0] for x in (parts, whole))
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_short_texts_are_read_at_once():
    params = decoder.init(jax.random.key(0), TINY)
    cache, tokens = caches(TINY, params)
    traced = jax.make_jaxpr(lambda count: prefill.read(params, TINY, cache, tokens, count)[0])(
        BEFORE
    )
    assert "while" not in str(traced)
