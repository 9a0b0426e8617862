"""Hashes compose as strings do, and a span's hash is that of its bytes."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.text import hashing

SIZE = 24


@jax.jit
def _span(text, start, end):
    return hashing.of_span(text, start, end)


def _padded(string):
    return np.frombuffer(string.ljust(SIZE, b"\xff"), np.uint8)


def _same(a, b):
    return bool(jnp.all(hashing.equal(a, b)))


@settings(deadline=None, max_examples=50)
@given(st.binary(max_size=SIZE), st.integers(0, SIZE), st.integers(0, SIZE))
def test_span_equals_host_hash_and_concatenation(string, i, j):
    start, end = min(i, j, len(string)), min(max(i, j), len(string))
    host = hashing.of_strings([string[start:end], string[:start], string[:end]])
    part, before, together = (jax.tree.map(lambda x, k=k: x[k], host) for k in range(3))
    device = _span(_padded(string), start, end)
    assert _same(device, part)
    assert _same(hashing.concatenate(before, part), together)


def test_different_strings_have_different_hashes():
    words = [f"{a}{b}{c}".encode() for a in "abcdefgh" for b in range(10) for c in (" ", "", "zz")]
    table = hashing.of_strings(sorted(set(words)))
    keys = {(int(a), int(b)) for a, b in zip(*table.hash, strict=True)}
    assert len(keys) == len(set(words))


def test_empty_span():
    empty = jax.tree.map(lambda x: x[0], hashing.of_strings([b""]))
    assert _same(_span(_padded(b"abc"), 2, 1), empty)
