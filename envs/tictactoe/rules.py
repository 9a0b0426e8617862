"""Tic-tac-toe on two words of nine bits: squares 0 to 8, row by row. Seat 0 begins."""

import functools
from typing import NamedTuple

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


class State(NamedTuple):
    """marks: i32[2], squares of each seat as bits."""

    marks: jax.Array


def has_line(marks: jax.Array) -> jax.Array:
    """Whether the marks, bits of i32[...], contain three in a row: bool[...]."""
    held = jnp.zeros(marks.shape, bool)
    for line in LINES:
        held |= (marks & line) == line
    return held


def squares(marks: jax.Array) -> jax.Array:
    """Bits of i32[...] as bool[..., 9]."""
    return (marks[..., None] >> np.arange(9, dtype=np.int32)) & 1 == 1


def initial() -> State:
    """The empty board, seat 0 to move."""
    return State(jnp.zeros(2, jnp.int32))


def player(state: State) -> jax.Array:
    """The seat with fewer marks, seat 0 if both have the same number, i32[]."""
    counts = jax.lax.population_count(state.marks)
    return (counts[0] > counts[1]).astype(jnp.int32)


def legal(state: State) -> jax.Array:
    """Empty squares, bool[9]."""
    return ~squares(state.marks[0] | state.marks[1])


def play(state: State, action: jax.Array) -> State:
    """Marks an empty square."""
    mine = jnp.arange(2) == player(state)
    # The index of an illegal square may be arbitrary; its result is not used.
    return State(state.marks | jnp.where(mine, 1 << jnp.clip(action, 0, 8), 0))


def terminal(state: State) -> jax.Array:
    """Whether a seat has three in a row, or no square is left, bool[]."""
    full = (state.marks[0] | state.marks[1]) == FULL
    return jnp.any(has_line(state.marks)) | full


def returns(state: State) -> jax.Array:
    """1 for the seat with three in a row, -1 for the other, i32[2]; 0 without."""
    line = has_line(state.marks).astype(jnp.int32)
    return line - line[::-1]


def information_state(state: State, player: int) -> str:
    """The board, which both see: `OX./.../...`."""
    first, second = np.asarray(squares(state.marks))
    cells = "".join("O" if a else "X" if b else "." for a, b in zip(first, second, strict=True))
    return "/".join(cells[i : i + 3] for i in (0, 3, 6))


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
