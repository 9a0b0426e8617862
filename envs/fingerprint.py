"""64-bit fingerprints of pytrees, used as anchors."""

import chex
import jax
import jax.numpy as jnp
import numpy as np


def _salts(count: int, lane: int) -> np.ndarray:
    """One fixed 32-bit salt per word, from the splitmix64 sequence (host constants, no device)."""
    step = np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):
        z = (np.arange(1, count + 1, dtype=np.uint64) + np.uint64(lane << 32)) * step
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(32)).astype(np.uint32)


def _avalanche(x: jax.Array) -> jax.Array:
    """MurmurHash3's 32-bit finaliser: every input bit moves about half of the output bits."""
    x = (x ^ (x >> 16)) * np.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * np.uint32(0xC2B2AE35)
    return x ^ (x >> 16)


def _words(leaf: jax.Array) -> jax.Array:
    """The leaf as u32 words, with several small integers packed into one word."""
    leaf = jnp.asarray(leaf).reshape(-1)
    if jnp.issubdtype(leaf.dtype, jnp.floating):
        # Adding zero turns -0.0 into 0.0: equal numbers get equal fingerprints.
        return jax.lax.bitcast_convert_type(leaf.astype(jnp.float32) + 0.0, jnp.uint32)
    if leaf.dtype == jnp.bool_:
        bits, leaf = 1, leaf.astype(jnp.uint32)
    elif leaf.dtype.itemsize == 1:
        bits, leaf = 8, jnp.bitwise_and(leaf.astype(jnp.uint32), 0xFF)
    else:
        return leaf.astype(jnp.uint32)
    per_word = 32 // bits
    leaf = jnp.pad(leaf, (0, -leaf.shape[0] % per_word)).reshape(-1, per_word)
    shifts = np.arange(per_word, dtype=np.uint32) * np.uint32(bits)
    return jnp.sum(leaf << shifts, axis=-1, dtype=jnp.uint32)


def fingerprint(tree: chex.ArrayTree) -> jax.Array:
    """Fingerprint of a pytree of arrays, u32[2]: equal for equal contents.

    Each lane is h = avalanche(sum_i avalanche(w_i xor salt_i)) over the 32-bit words w_i of the
    leaves in order, with different salts in the two lanes. Two different trees of one structure
    collide with probability about 2^-64, so among n anchors of one group the chance of any false
    merge is about n^2 / 2^65.

    Floating leaves are compared as float32 by value (-0.0 equals 0.0; a NaN equals the same NaN).
    """
    words = jnp.concatenate([_words(leaf) for leaf in jax.tree.leaves(tree)])
    lanes = [
        _avalanche(jnp.sum(_avalanche(words ^ _salts(words.shape[0], lane)), dtype=jnp.uint32))
        for lane in (0, 1)
    ]
    return jnp.stack(lanes)
