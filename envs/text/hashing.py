"""64-bit hashes of byte strings that can be composed: hash(ab) follows from hash(a) and hash(b).

Each of two 32-bit lanes is a polynomial over the string's bytes,

    h(b_1 ... b_n) = sum_i v(b_i) * P^(n - i)   mod 2^32,

with its own odd multiplier P and table v of random values. So
h(ab) = h(a) * P^|b| + h(b): the hash of a command follows from those of its fragments, and no
command is rendered. Two different strings of the sizes used here collide with probability about
2^-64. Adversarial strings (Thue-Morse words of several hundred bytes) can collide in any polynomial
modulo a power of two; this harms only the agent that writes them.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

LANES = 2
# Odd multipliers with well spread bits, one per lane, and their inverses modulo 2^32.
MULTIPLIERS = tuple(np.uint32(p) for p in (0x9E3779B1, 0x85EBCA77))
INVERSES = tuple(np.uint32(pow(int(p), -1, 1 << 32)) for p in MULTIPLIERS)
# v: one random word per byte and lane (a fixed seed: hashes are the same in every process).
VALUES = (
    np.random.default_rng(20250).integers(1, 1 << 32, (LANES, 256), np.uint64).astype(np.uint32)
)


class Hashed(NamedTuple):
    """Hashes of strings of any batch shape.

    hash, power: one u32[...] per lane; power is P^length. length: i32[...], bytes.
    """

    hash: tuple[jax.Array, ...]
    power: tuple[jax.Array, ...]
    length: jax.Array


def powers(multiplier: np.uint32, count: int) -> np.ndarray:
    """multiplier^0 .. multiplier^(count - 1) modulo 2^32, u32[count]."""
    out = np.ones(count, np.uint32)
    with np.errstate(over="ignore"):
        for i in range(1, count):
            out[i] = out[i - 1] * multiplier
    return out


def of_strings(strings: Sequence[bytes]) -> Hashed:
    """Hashes of byte strings on the host, as NumPy arrays [n]."""
    hashes = np.zeros((LANES, len(strings)), np.uint32)
    power = np.ones((LANES, len(strings)), np.uint32)
    with np.errstate(over="ignore"):
        for i, string in enumerate(strings):
            for lane, multiplier in enumerate(MULTIPLIERS):
                for byte in string:
                    hashes[lane, i] = hashes[lane, i] * multiplier + VALUES[lane, byte]
                    power[lane, i] = power[lane, i] * multiplier
    return Hashed(tuple(hashes), tuple(power), np.array([len(s) for s in strings], np.int32))


def take(table: Hashed, ids: jax.Array) -> Hashed:
    """Hashes of the strings with these indices, in the shape of `ids`."""
    array = np.asarray if isinstance(ids, np.ndarray) else jnp.asarray
    return Hashed(
        tuple(array(lane)[ids] for lane in table.hash),
        tuple(array(lane)[ids] for lane in table.power),
        array(table.length)[ids],
    )


def concatenate(first: Hashed, second: Hashed) -> Hashed:
    """Hashes of the concatenated strings; the batch shapes are broadcast."""
    with np.errstate(over="ignore"):
        return Hashed(
            tuple(a * p + b for a, p, b in zip(first.hash, second.power, second.hash, strict=True)),
            tuple(p * q for p, q in zip(first.power, second.power, strict=True)),
            first.length + second.length,
        )


def of_span(text: jax.Array, start: jax.Array, end: jax.Array) -> Hashed:
    """Hash of text[start:end], for text u8[A] and start, end i32[]; empty if end <= start."""
    size = text.shape[-1]
    position = jnp.arange(size, dtype=jnp.int32)
    inside = (position >= start) & (position < end)
    length = jnp.maximum(end - start, 0)
    hashes, lengths = [], []
    for lane in range(LANES):
        # sum_i v_i P^(end - 1 - i) = P^(end - 1) sum_i v_i P^-i: one gather, of P^(end - 1).
        value = jnp.asarray(VALUES[lane])[text.astype(jnp.int32)]
        terms = jnp.where(inside, value * powers(INVERSES[lane], size), 0)
        table = jnp.asarray(powers(MULTIPLIERS[lane], size + 1))
        last = table[jnp.clip(end - 1, 0, size)]
        hashes.append(jnp.where(length > 0, jnp.sum(terms, dtype=jnp.uint32) * last, 0))
        lengths.append(table[jnp.minimum(length, size)])
    return Hashed(tuple(hashes), tuple(lengths), length)


def equal(a: Hashed, b: Hashed) -> jax.Array:
    """Whether the strings are equal, bool[...]; batch shapes are broadcast."""
    same = a.length == b.length
    for x, y in zip(a.hash, b.hash, strict=True):
        same = same & (x == y)
    return same
