"""Tic-tac-toe on two words of nine bits: squares 0 to 8, row by row."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

LINES = tuple(
    sum(1 << square for square in line)
    for line in (
        *((3 * i, 3 * i + 1, 3 * i + 2) for i in range(3)),
        *((i, i + 3, i + 6) for i in range(3)),
        (0, 4, 8),
        (2, 4, 6),
    )
)
FULL = 2**9 - 1


def has_line(marks: jax.Array) -> jax.Array:
    """Whether the marks, bits of i32[...], contain three in a row: bool[...]."""
    held = jnp.zeros(marks.shape, bool)
    for line in LINES:
        held |= (marks & line) == line
    return held


def squares(marks: jax.Array) -> jax.Array:
    """Bits of i32[...] as bool[..., 9]."""
    return (marks[..., None] >> np.arange(9, dtype=np.int32)) & 1 == 1


@functools.cache
def best_moves() -> np.ndarray:
    """Optimal squares, u8[512, 512]: bits by (own marks, the other's), the player to move first.

    By minimax over all positions; all of equally good moves are set. 0 for positions that are not
    in play.
    """
    lines = np.zeros(512, bool)
    for line in LINES:
        lines |= (np.arange(512) & line) == line
    table = np.zeros((512, 512), np.uint16)

    @functools.cache
    def value(own: int, other: int) -> int:
        """Outcome for the player to move: 1, 0 or -1."""
        if lines[other]:
            return -1
        if own | other == FULL:
            return 0
        free = [1 << s for s in range(9) if not (own | other) >> s & 1]
        values = [-value(other, own | square) for square in free]
        best = max(values)
        table[own, other] = sum(q for q, v in zip(free, values, strict=True) if v == best)
        return best

    value(0, 0)
    return table
