"""Connect four on one word per column: bit r of a word is the square r rows above the floor.

Discs fall, so the occupied bits of a column are 2^h - 1, and adding one gives the square of the
next disc. Boards are u[..., columns] of discs or squares. Seat 0 begins.
"""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

LENGTH = 4
# Directions in which a line may run from column to column: level, rising, falling.
_LEANS = (0, 1, -1)
_WON = 10_000


@struct.dataclass
class State:
    """A position.

    discs: u8[2, columns] (wider with more than 8 rows), of each seat. line: bool[], the last disc
    completed a line. rows: of the board.
    """

    discs: jax.Array
    line: jax.Array
    rows: int = struct.field(pytree_node=False)


def word(rows: int) -> np.dtype:
    """The smallest unsigned type that holds a column."""
    return np.dtype(np.uint8 if rows <= 8 else np.uint16 if rows <= 16 else np.uint32)


def full(rows: int) -> np.generic:
    """The word of a column without a free square, with the lowest `rows` bits set; the board's
    mask."""
    return word(rows).type(2**rows - 1)


def landing(occupied: jax.Array, rows: int) -> jax.Array:
    """The square of each column on which a disc lands, none in full columns."""
    return (occupied + 1) & full(rows)


def _raised(board: jax.Array, by: int) -> jax.Array:
    """Moved up by so many rows. Bits may end up above the top row."""
    return board << by if by >= 0 else board >> -by


def has_line(discs: jax.Array) -> jax.Array:
    """Whether the discs u[..., columns] contain a line of four: bool[...]."""
    columns = discs.shape[-1]
    held = jnp.any(discs & (discs >> 1) & (discs >> 2) & (discs >> 3), axis=-1)
    for lean in _LEANS:
        line = discs[..., : columns - LENGTH + 1]
        for i in range(1, LENGTH):
            line = line & _raised(discs[..., i : columns - LENGTH + 1 + i], -lean * i)
        held = held | jnp.any(line, axis=-1)
    return held


def completing(discs: jax.Array, rows: int) -> jax.Array:
    """Squares that complete a line of four with three of the discs, taken squares included."""
    columns = discs.shape[-1]
    found = (discs << 1) & (discs << 2) & (discs << 3)
    pad = [(0, 0)] * (discs.ndim - 1) + [(LENGTH - 1, LENGTH - 1)]
    padded = jnp.pad(discs, pad)
    for lean in _LEANS:
        beside = {
            i: _raised(padded[..., LENGTH - 1 + i : LENGTH - 1 + i + columns], -lean * i)
            for i in range(1 - LENGTH, LENGTH)
        }
        for first in range(1 - LENGTH, 1):
            one, two, three = (beside[i] for i in range(first, first + LENGTH) if i != 0)
            found = found | (one & two & three)
    return found & full(rows)


def squares(board: jax.Array, rows: int) -> jax.Array:
    """Bits of u[columns] as bool[rows, columns], the top row first."""
    return (board >> np.arange(rows - 1, -1, -1, dtype=board.dtype)[:, None]) & 1 == 1


def initial(rows: int, columns: int) -> State:
    """The empty board of this size, seat 0 to move."""
    return State(jnp.zeros((2, columns), word(rows)), jnp.zeros((), bool), rows)


def player(state: State) -> jax.Array:
    """The seat with fewer discs, seat 0 if both have the same number, i32[]."""
    return jnp.sum(jax.lax.population_count(state.discs).astype(jnp.int32)) & 1


def legal(state: State) -> jax.Array:
    """Columns with a free square, bool[columns]."""
    return landing(state.discs[0] | state.discs[1], state.rows) > 0


def play(state: State, action: jax.Array) -> State:
    """Drops a disc into a column."""
    mine = jnp.arange(2) == player(state)
    drop = landing(state.discs[0] | state.discs[1], state.rows)
    drop = jnp.where(jnp.arange(drop.shape[0]) == action, drop, 0)
    discs = state.discs | jnp.where(mine[:, None], drop, 0)
    return state.replace(discs=discs, line=has_line(jnp.where(mine[0], discs[0], discs[1])))


def terminal(state: State) -> jax.Array:
    """Whether there are four in a line, or no square is left, bool[]."""
    return state.line | ~jnp.any(legal(state))


def returns(state: State) -> jax.Array:
    """1 for the seat with four in a line, the last to move, and -1 for the other, i32[2]."""
    moved = jnp.arange(2) != player(state)
    return jnp.where(state.line, jnp.where(moved, 1, -1), 0)


def information_state(state: State, player: int) -> str:
    """The board, which both see, the top row first: `.../X.O`."""
    first, second = (np.asarray(squares(discs, state.rows)) for discs in state.discs)
    codes = first + 2 * second.astype(int)
    return "/".join("".join(".XO"[c] for c in row) for row in codes)


def _estimate(own: jax.Array, other: jax.Array, rows: int) -> jax.Array:
    """Value of a position: free squares that complete a line, then discs near the middle."""
    columns = own.shape[-1]
    free = ~(own | other)
    near = np.minimum(np.arange(columns), np.arange(columns)[::-1])

    def worth(discs):
        middle = jnp.sum(jax.lax.population_count(discs).astype(jnp.int32) * near, axis=-1)
        threats = jax.lax.population_count(completing(discs, rows) & free).astype(jnp.int32)
        return 16 * jnp.sum(threats, axis=-1) + middle

    return worth(own) - worth(other)


def values(own: jax.Array, other: jax.Array, rows: int, depth: int) -> jax.Array:
    """Value of each column for the player to move, i32[columns]; own, other u[columns].

    A negamax search of `depth` more moves, which also detects a line at the move after them; early
    lines count more than late ones. Full columns have the lowest value.
    """
    columns = own.shape[-1]
    drop = landing(own | other, rows)
    wins = completing(own, rows) & drop
    after = own | jnp.where(np.eye(columns, dtype=bool), drop, 0)

    def value(own):
        """Value of the position after a move, for the player that made it."""
        over = jnp.all((own | other) == full(rows))
        ready = jnp.any(completing(other, rows) & landing(own | other, rows))
        if depth == 0:
            going_on = _estimate(own, other, rows)
        else:
            going_on = -jnp.max(values(other, own, rows, depth - 1))
        return jnp.where(over, 0, jnp.where(ready, -_WON - depth, going_on))

    worth = jnp.where(wins > 0, _WON + depth + 1, jax.vmap(value)(after))
    return jnp.where(drop > 0, worth, -2 * _WON)
