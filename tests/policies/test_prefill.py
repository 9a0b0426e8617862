"""Reading in blocks: the states of reading at once, at the cost of the longest text there is."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from agentrl.policies import decoder, prefill
from agentrl.policies.decoder import DecoderConfig

TINY = DecoderConfig(vocab_size=13, width=16, layers=2, heads=2, kv_heads=1, head_dim=8, hidden=24)
ROWS, LENGTH, SIZE = 4, 10, 24
BEFORE = np.array([3, 0, 5, 2])
TOKENS = np.random.default_rng(1).integers(0, TINY.vocab_size, (ROWS, 5 + LENGTH)).astype(np.int32)
extend = jax.jit(decoder.extend, static_argnums=1)
step = jax.jit(decoder.step, static_argnums=1)


@functools.cache
def beginning(config):
    """(parameters, a cache whose rows have read BEFORE tokens, further tokens)."""
    params = jax.jit(decoder.init, static_argnums=1)(jax.random.key(0), config)
    params = jax.tree.map(lambda x: x + np.float32(0.1), jax.device_get(params))
    cache = decoder.empty_cache(config, ROWS, SIZE)
    return params, extend(params, config, cache, TOKENS[:, :5], BEFORE)[1], TOKENS[:, 5:]


@functools.cache
def reader(config):
    """(program that reads in blocks of three, list to which it adds the size of each block)."""
    blocks = []

    def counted(params, config, cache, tokens, count, role=None):
        jax.debug.callback(lambda: blocks.append(tokens.shape[1]))
        return extend(params, config, cache, tokens, count, role)

    def read(params, cache, tokens, count):
        return prefill.read(params, config, cache, tokens, count, block=3)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoder, "extend", counted)
        return jax.jit(read).lower(*beginning(config), BEFORE).compile(), blocks


@pytest.mark.parametrize("unroll", [None, 1])
@pytest.mark.parametrize("counts", [(10, 0, 7, 3), (4, 4, 4, 4), (0, 0, 1, 0), (0, 0, 0, 0)])
def test_blocks_read_what_is_read_at_once(unroll, counts):
    config = dataclasses.replace(TINY, decode_unroll=unroll)
    count = np.asarray(counts)
    params, cache, tokens = beginning(config)
    hidden, whole = extend(params, config, cache, tokens, count)
    # What stands after a row's tokens may not matter.
    poisoned = np.where(np.arange(LENGTH) < count[:, None], tokens, np.int32(11))
    read, blocks = reader(config)
    blocks.clear()
    last, parts = read(params, cache, poisoned, count)
    jax.block_until_ready(last)
    jax.effects_barrier()
    # Ten positions are four blocks of three.
    assert blocks == [3] * -(-max(counts) // 3)
    some, last, hidden = count > 0, np.asarray(last), np.asarray(hidden)
    np.testing.assert_allclose(
        last[some], hidden[np.arange(ROWS), np.maximum(counts, 1) - 1][some], atol=1e-5
    )
    np.testing.assert_array_equal(parts.length, BEFORE + count)
    # The caches continue alike.
    token, active = np.array([5, 6, 7, 8]), np.ones(ROWS, bool)
    ours, theirs = (step(params, config, x, token, active)[0] for x in (parts, whole))
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_short_texts_are_read_at_once():
    params, cache, tokens = beginning(TINY)
    traced = jax.make_jaxpr(lambda count: prefill.read(params, TINY, cache, tokens, count)[0])(
        BEFORE
    )
    assert "while" not in str(traced)
