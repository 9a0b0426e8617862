"""Rules of the mazes, as pure functions on one maze.

A maze is `walls` bool[R, C] whose border is wall; cells are numbered by rows. Moves are 0 up, 1
down, 2 left, 3 right. Read in code: LMRL-Gym `llm_rl_scripts/maze/env` (moves and its two mazes);
the random mazes are ours.
"""

import jax
import jax.numpy as jnp
import numpy as np

# Row and column change of each move.
MOVES = np.array([[-1, 0], [1, 0], [0, -1], [0, 1]], np.int32)

# LMRL-Gym's mazes: G is the goal.
LAYOUTS = {
    "double_t": (
        "#############",
        "#.....#.....#",
        "###.#####.###",
        "###.#####.###",
        "###.#####.###",
        "###.......###",
        "######.######",
        "######.######",
        "######G######",
        "#############",
    ),
    "umaze": (
        "#####",
        "#...#",
        "#.#.#",
        "#.#G#",
        "#####",
    ),
}


def layout(name: str) -> tuple[np.ndarray, int]:
    """One of LMRL-Gym's mazes: (walls bool[R, C], goal cell)."""
    glyphs = np.array([list(row) for row in LAYOUTS[name]])
    return glyphs == "#", int(np.flatnonzero(glyphs == "G")[0])


def carve(key: jax.Array, rows: int, cols: int) -> jax.Array:
    """Draws a perfect maze (one path between any two free cells), `walls` bool[rows, cols].

    Kruskal's algorithm: the cells with odd row and odd column are nodes, the cells between two of
    them passages; in random order each passage is opened that joins two unconnected parts. One
    iteration per passage, whatever the key.

    Depth-first search has longer corridors but less variety: by the inverse of the probability that
    two draws agree, at 9 x 9 it has 300 mazes from a fixed start, few enough to memorise, and this
    some 90 000 out of 100 352.
    """
    height, width = rows // 2, cols // 2
    nodes = np.arange(height * width, dtype=np.int8).reshape(height, width)
    across = np.stack([nodes[:, :-1], nodes[:, 1:]], axis=-1).reshape(-1, 2)
    along = np.stack([nodes[:-1], nodes[1:]], axis=-1).reshape(-1, 2)
    ends = jnp.asarray(np.concatenate([across, along]))

    def join(part, ends):
        one, other = part[ends]
        return jnp.where(part == other, one, part), one != other

    order = jax.random.permutation(key, len(ends))
    _, joined = jax.lax.scan(join, jnp.asarray(nodes.ravel()), ends[order])
    closed = jnp.ones(len(ends), bool).at[order].set(~joined)
    walls = jnp.ones((rows, cols), bool).at[1::2, 1::2].set(False)
    walls = walls.at[1::2, 2:-1:2].set(closed[: len(across)].reshape(height, width - 1))
    return walls.at[2:-1:2, 1::2].set(closed[len(across) :].reshape(height - 1, width))


def two_cells(key: jax.Array, allowed: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Two different uniform cells out of `allowed` bool[R, C], i32[] each."""
    score = jnp.where(allowed, jax.random.uniform(key, allowed.shape), -1.0).ravel()
    first = jnp.argmax(score)
    second = jnp.argmax(jnp.where(jnp.arange(score.size) == first, -1.0, score))
    return first.astype(jnp.int32), second.astype(jnp.int32)


def ahead(position: jax.Array, move: jax.Array, cols: int) -> jax.Array:
    """The cell in the direction of `move` from a free cell, wall or not, u8[]."""
    down = (move == 1).astype(jnp.int32) - (move == 0)
    right = (move == 3).astype(jnp.int32) - (move == 2)
    return (position + down * cols + right).astype(jnp.uint8)


def pack(walls: jax.Array) -> jax.Array:
    """Walls bool[R, C] as bits, u16[R]: bit c of row r."""
    bits = np.left_shift(1, np.arange(walls.shape[1], dtype=np.uint16), dtype=np.uint16)
    return jnp.sum(jnp.where(walls, bits, 0), axis=1, dtype=jnp.uint16)


def unpack(bits: jax.Array, cols: int) -> jax.Array:
    """The walls bool[R, cols] of bits u16[R], which `pack` makes."""
    return (bits[:, None] >> jnp.arange(cols, dtype=jnp.uint16)) & 1 == 1


def is_wall(bits: jax.Array, cell: jax.Array, cols: int) -> jax.Array:
    """Whether a cell (u8[]) of packed walls is wall, bool[]."""
    row = jnp.arange(bits.shape[0], dtype=jnp.uint8) == cell // cols
    line = jnp.sum(jnp.where(row, bits, 0), dtype=jnp.uint16)
    return (line >> (cell % cols).astype(jnp.uint16)) & 1 == 1


def distances(walls: jax.Array, goal: jax.Array) -> jax.Array:
    """Moves from each cell to the goal, i32[R, C]; R C on walls and where there is no path."""
    rows, cols = walls.shape
    far = walls.size
    cells = jnp.arange(far).reshape(rows, cols)

    def relax(carry):
        distance, _ = carry
        around = jnp.pad(distance, 1, constant_values=far)
        near = [around[1 + r : 1 + r + rows, 1 + c : 1 + c + cols] for r, c in MOVES]
        nearest = jnp.min(jnp.stack(near), axis=0)
        shorter = jnp.where(walls, far, jnp.minimum(distance, nearest + 1))
        return shorter, jnp.any(shorter != distance)

    start = jnp.where(cells == goal, 0, far)
    distance, _ = jax.lax.while_loop(lambda carry: carry[1], relax, (start, jnp.array(True)))
    return distance
