"""Nim: the moves, the objects they take, and the winning positions."""

import functools

import jax
import jax.numpy as jnp
import numpy as np


def pairs(piles: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """All moves, (pile, quantity): pile by pile, the quantities from 1 to its size."""
    return tuple((pile, q) for pile, size in enumerate(piles) for q in range(1, size + 1))


def moves(piles: tuple[int, ...]) -> np.ndarray:
    """Objects that each move takes from each pile, u8[moves, piles]."""
    pile, quantity = np.array(pairs(piles)).T
    return np.where(pile[:, None] == np.arange(len(piles)), quantity[:, None], 0).astype(np.uint8)


def nim_sum(piles: jax.Array) -> jax.Array:
    """Sum without carries of u8[..., piles]: 0 if the player to move loses against optimal play."""
    return functools.reduce(jnp.bitwise_xor, [piles[..., i] for i in range(piles.shape[-1])])
