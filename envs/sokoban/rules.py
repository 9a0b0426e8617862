"""Rules of Sokoban on bitboards, as pure functions on one room, and its optimal solver.

A room is enclosed by walls, so only its interior of h x w cells is stored; interior cells are
numbered by rows. Directions are 0 up, 1 down, 2 left, 3 right. Read in: gym-sokoban 0.0.6
`SokobanEnv` (pushes, rewards).
"""

import functools
import operator
from collections.abc import Callable, Iterable

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

# Row and column change of each direction.
MOVES = np.array([[-1, 0], [1, 0], [0, -1], [0, 1]], np.int32)
# Largest table that `solve` allocates, in 32-bit words (16 MiB).
MAX_TABLE_WORDS = 2**22


def opposite(direction: int) -> int:
    """The direction of a step back; 0 and 1, and 2 and 3, are opposite."""
    return direction ^ 1


@functools.cache
def _movable(shape: tuple[int, int], direction: int) -> tuple[np.uint32, ...]:
    """Words of the cells that have a neighbour in a direction."""
    row, col = np.divmod(np.arange(shape[0] * shape[1]), shape[1])
    row, col = row + MOVES[direction, 0], col + MOVES[direction, 1]
    return _pack((row >= 0) & (row < shape[0]) & (col >= 0) & (col < shape[1]))


def _pack(cells: np.ndarray) -> tuple[np.ndarray, ...]:
    """Words of bool[..., h * w] on the host."""
    words = []
    for start in range(0, cells.shape[-1], 32):
        part = cells[..., start : start + 32].astype(np.uint32)
        weights = np.uint32(1) << np.arange(part.shape[-1], dtype=np.uint32)
        words.append((part * weights).sum(-1, dtype=np.uint32))
    return tuple(words)


@struct.dataclass
class Board:
    """A set of interior cells: cell c is bit c % 32 of word c // 32.

    words: ceil(h * w / 32) arrays u32[...], each its own leaf. With a word axis instead, `vmap`
    moves the batch in front of it at every concatenation, which made a 10 x 10 step 5 times slower.
    shape: (h, w), static.
    """

    words: tuple[jax.Array, ...]
    shape: tuple[int, int] = struct.field(pytree_node=False)

    def __and__(self, other: "Board") -> "Board":
        """The cells of the board that are in this set and in the other."""
        return self._zip(jnp.bitwise_and, other)

    def __or__(self, other: "Board") -> "Board":
        """The cells of the board that are in this set, in the other, or in both."""
        return self._zip(jnp.bitwise_or, other)

    def __xor__(self, other: "Board") -> "Board":
        """The cells of the board that are in exactly one of the two sets."""
        return self._zip(jnp.bitwise_xor, other)

    def __sub__(self, other: "Board") -> "Board":
        """Cells that are in the first set only."""
        return self._zip(lambda a, b: a & ~b, other)

    def _zip(self, combine: Callable, other: "Board") -> "Board":
        return Board(tuple(map(combine, self.words, other.words)), self.shape)

    def any(self) -> jax.Array:
        """Whether a cell is in the set, bool[...]."""
        return functools.reduce(jnp.bitwise_or, self.words) != 0

    def count(self) -> jax.Array:
        """Number of cells in the set, i32[...]."""
        return sum(jax.lax.population_count(word).astype(jnp.int32) for word in self.words)

    def shift(self, direction: int) -> "Board":
        """Every cell moved one step; those that would leave the interior drop out."""
        movers = self & Board(_movable(self.shape, direction), self.shape)
        words = [np.uint32(0), *movers.words, np.uint32(0)]
        step = int(MOVES[direction] @ (self.shape[1], 1))
        triples = zip(words, words[1:], words[2:], strict=False)
        if step < 0:
            moved = [(word >> -step) | (above << (32 + step)) for _, word, above in triples]
        else:
            moved = [(word << step) | (below >> (32 - step)) for below, word, _ in triples]
        return Board(tuple(moved), self.shape)

    def ahead(self, direction: jax.Array) -> "Board":
        """`shift` by a traced direction; empty for other directions."""
        moved = Board(tuple(jnp.zeros_like(word) for word in self.words), self.shape)
        for d in range(4):
            moved = where(direction == d, self.shift(d), moved)
        return moved

    def cells(self) -> jax.Array:
        """Room as bool[h + 2, w + 2], False on the walls around it."""
        h, w = self.shape
        row, col = np.divmod(np.arange((h + 2) * (w + 2)), w + 2)
        inside = (row > 0) & (row <= h) & (col > 0) & (col <= w)
        cell = np.where(inside, (row - 1) * w + col - 1, 0)
        # By bytes, because comparisons of bytes fill four times as many SIMD lanes as those
        # of words.
        parts = [(word >> 8 * i).astype(jnp.uint8) for word in self.words for i in range(4)]
        byte = parts[0]
        for i in range(1, -(-h * w // 8)):
            byte = jnp.where(cell // 8 == i, parts[i], byte)
        bit = np.where(inside, 1 << (cell % 8), 0).astype(np.uint8)
        return ((byte & bit) != 0).reshape(h + 2, w + 2)


def where(condition: jax.Array, a: Board, b: Board) -> Board:
    """The cells of `a` where the condition, bool[] or of the words' shape, holds, else those of
    `b`."""
    return jax.tree.map(lambda x, y: jnp.where(condition, x, y), a, b)


def union(boards: Iterable[Board]) -> Board:
    """Cells in any of the boards."""
    return functools.reduce(operator.or_, boards)


def at(cell: jax.Array, shape: tuple[int, int]) -> Board:
    """The set of one cell, by its index."""
    bit = jnp.uint32(1) << (cell % 32).astype(jnp.uint32)
    words = -(-shape[0] * shape[1] // 32)
    return Board(tuple(jnp.where(cell // 32 == i, bit, np.uint32(0)) for i in range(words)), shape)


def board(cells: jax.Array) -> Board:
    """Board of a room bool[h + 2, w + 2]; the surrounding walls are left out."""
    inner = jnp.asarray(cells)[1:-1, 1:-1]
    shape, inner = inner.shape, inner.reshape(-1).astype(jnp.uint32)
    words = []
    for start in range(0, inner.size, 32):
        part = inner[start : start + 32]
        words.append(jnp.sum(part << np.arange(part.size, dtype=np.uint32), dtype=jnp.uint32))
    return Board(tuple(words), shape)


def move(
    floor: Board, boxes: Board, player: Board, direction: jax.Array, pushing: jax.Array | bool
) -> tuple[Board, Board]:
    """(boxes, player) after the player tried to move in a direction.

    With `pushing`, a box ahead is pushed if the cell behind it is free. A blocked move, and any
    other direction, changes nothing.
    """
    ahead = player.ahead(direction)
    beyond = ahead.ahead(direction)
    free = floor - boxes
    pushes = pushing & (ahead & boxes).any() & (beyond & free).any()
    moves = pushes | (ahead & free).any()
    return where(pushes, boxes ^ ahead ^ beyond, boxes), where(moves, ahead, player)


def deadlocked(floor: Board, targets: Board, boxes: Board) -> jax.Array:
    """Whether a box off target is in a corner, bool[]: sufficient, not necessary, for an unsolvable
    room."""
    up, down, left, right = (floor.shift(opposite(d)) for d in range(4))
    in_corner = boxes - targets - ((up & down) | (left & right))
    return in_corner.any()


def solve(
    floor: Board, targets: Board, boxes: Board, player: Board, count: int
) -> tuple[jax.Array, jax.Array]:
    """Optimal (direction i32[], steps i32[]) of a room with `count` boxes.

    steps is the least number of moves that puts the boxes on the targets: 0 in a solved room, and
    -1 in an unsolvable one, where the direction is arbitrary. Breadth first, backwards from the
    solved rooms: a table over the cells of all boxes contains, as a board, the player's cells from
    which k moves suffice. It takes (h w)^count * ceil(h w / 32) words, and `steps` sweeps of some
    30 (1 + count) operations per word.

    Raises:
      ValueError: the table would exceed MAX_TABLE_WORDS.
    """
    n = floor.shape[0] * floor.shape[1]
    if n**count * len(floor.words) > MAX_TABLE_WORDS:
        raise ValueError(
            f"no optimal solver for {count} boxes in {n} cells: its table would take "
            f"{n**count * len(floor.words)} words, expected at most {MAX_TABLE_WORDS}; use a "
            "smaller room or fewer boxes"
        )
    eye = np.eye(n, dtype=bool)

    def along(axis: int, cells: np.ndarray) -> Board:
        """Constant board [n] that varies along one axis of the table."""
        index = tuple(slice(None) if i == axis else None for i in range(count))
        return Board(tuple(word[index] for word in _pack(cells)), floor.shape)

    standing = [along(axis, eye) for axis in range(count)]
    occupied = union(standing)
    apart = occupied.count() == count
    nobody = Board((np.uint32(0),) * len(floor.words), floor.shape)
    on_floor = ~(occupied - floor).any()
    open_cells = where(apart & on_floor, floor - occupied, nobody)
    solved = where(~(targets - occupied).any(), open_cells, nobody)

    def sweep(reached: Board) -> Board:
        wider = reached
        for d in range(4):
            wider = wider | reached.shift(opposite(d))
            for axis in range(count):
                after = _look(reached, axis, int(MOVES[d] @ (floor.shape[1], 1)))
                pushed = (after & standing[axis]).any()
                wider = wider | where(pushed, along(axis, _pusher(floor.shape, d)), nobody)
        return wider & open_cells

    def has(table: Board, boxes: Board, player: Board) -> jax.Array:
        index = jnp.nonzero(boxes.cells()[1:-1, 1:-1].ravel(), size=count, fill_value=0)[0]
        entry = Board(tuple(word[tuple(index)] for word in table.words), floor.shape)
        return (entry & player).any()

    def widen(carry):
        reached, _, steps, _ = carry
        wider = sweep(reached)
        return wider, reached, steps + 1, jnp.any((wider ^ reached).any())

    def searching(carry):
        reached, _, _, grew = carry
        return grew & ~has(reached, boxes, player)

    reached, closer, steps, _ = jax.lax.while_loop(
        searching, widen, (solved, solved, jnp.int32(0), jnp.array(True))
    )
    good = [has(closer, *move(floor, boxes, player, jnp.int32(d), True)) for d in range(4)]
    steps = jnp.where(has(reached, boxes, player), steps, -1)
    return jnp.argmax(jnp.stack(good)).astype(jnp.int32), steps


def _look(table: Board, axis: int, step: int) -> Board:
    """Table whose entry c is the old entry c + step along an axis, empty beyond its ends."""

    def look(word: jax.Array) -> jax.Array:
        pad = [(0, 0)] * word.ndim
        pad[axis] = (max(-step, 0), max(step, 0))
        start = max(step, 0)
        return jax.lax.slice_in_dim(jnp.pad(word, pad), start, start + word.shape[axis], axis=axis)

    return Board(tuple(map(look, table.words)), table.shape)


@functools.cache
def _pusher(shape: tuple[int, int], direction: int) -> np.ndarray:
    """bool[n, n]: cells where the player stands to push a box on a cell, if both ends are
    inside."""
    h, w = shape
    row, col = np.divmod(np.arange(h * w), w)
    dr, dc = MOVES[direction]
    fits = (0 <= row - abs(dr)) & (row + abs(dr) < h) & (0 <= col - abs(dc)) & (col + abs(dc) < w)
    behind = (row - dr) * w + col - dc
    return fits[:, None] & (np.arange(h * w) == behind[:, None])
