"""Rules of the frozen lake, as pure functions on one map.

A map of side n is `holes` bool[n, n] with `start` and `goal` as flat cell indices. Actions are 0
left, 1 down, 2 right, 3 up. Read in: gymnasium 1.4 `FrozenLakeEnv` (transitions) and RAGEN
`env/frozen_lake` (random start and goal).
"""

import jax
import jax.numpy as jnp
import numpy as np

# Row and column change of each action.
MOVES = np.array([[0, -1], [1, 0], [0, 1], [-1, 0]], np.int32)


def pack(cells: jax.Array) -> tuple[jax.Array, ...]:
    """Words of a map bool[n, n]: cell c is bit c % 32 of word c // 32, each word a u32[].

    Reading a cell is then a shift instead of a reduction over all cells at every step; each word is
    a leaf of its own, so that a batch of them is a plain vector.
    """
    flat = jnp.asarray(cells).reshape(-1).astype(jnp.uint32)
    return tuple(
        jnp.sum(part << np.arange(part.size, dtype=np.uint32), dtype=jnp.uint32)
        for part in jnp.split(flat, list(range(32, flat.size, 32)))
    )


def unpack(words: tuple[jax.Array, ...], size: int) -> jax.Array:
    """Map bool[size, size] of its words."""
    bits = [(word >> np.arange(32, dtype=np.uint32)) & 1 for word in words]
    return jnp.concatenate(bits)[: size * size].reshape(size, size).astype(bool)


def has(words: tuple[jax.Array, ...], position: jax.Array) -> jax.Array:
    """Whether a cell is set, bool[]."""
    word = words[0]
    for i in range(1, len(words)):
        word = jnp.where(position >= 32 * i, words[i], word)
    return ((word >> (position % 32).astype(jnp.uint32)) & 1).astype(bool)


def move(position: jax.Array, action: jax.Array, size: int) -> jax.Array:
    """Cell after a move from `position` (flat), i32[]; moves over the edge do nothing."""
    row, col = position // size, position % size
    row = jnp.clip(row + (action == 1) - (action == 3), 0, size - 1)
    col = jnp.clip(col + (action == 2) - (action == 0), 0, size - 1)
    return row * size + col


def slip(key: jax.Array, action: jax.Array, success_rate: jax.Array) -> jax.Array:
    """Direction actually taken: the intended one with `success_rate`, else one of the two
    perpendicular ones."""
    u = jax.random.uniform(key)
    aside = jnp.where(u < success_rate + (1 - success_rate) / 2, -1, 1)
    return jnp.where(u < success_rate, action, (action + aside) % 4)


def neighbours(grid: jax.Array) -> jax.Array:
    """[4, n, n]: for each action, the value of the cell that the move reaches."""
    padded = jnp.pad(grid, 1, mode="edge")
    n = grid.shape[0]
    return jnp.stack([padded[1 + r : 1 + r + n, 1 + c : 1 + c + n] for r, c in MOVES])


def connected(holes: jax.Array, start: jax.Array, goal: jax.Array) -> jax.Array:
    """Whether the goal can be reached from the start without entering a hole, bool[]."""
    cells = jnp.arange(holes.size).reshape(holes.shape)

    def grow(carry):
        reached, _ = carry
        grown = (reached | jnp.any(neighbours(reached), axis=0)) & ~holes
        return grown, jnp.any(grown != reached)

    reached, _ = jax.lax.while_loop(lambda carry: carry[1], grow, (cells == start, jnp.array(True)))
    return jnp.any(reached & (cells == goal))


def generate(
    key: jax.Array, size: int, frozen: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Draws (holes, start, goal) until the goal can be reached.

    Each cell is frozen with probability `frozen`; start and goal are distinct uniform cells and
    are never holes.
    """

    def draw(carry):
        key, *_ = carry
        key, hole_key, end_key = jax.random.split(key, 3)
        first, gap = jax.random.randint(end_key, (2,), jnp.array([0, 1]), size * size)
        goal = (first + gap) % (size * size)
        cells = jnp.arange(size * size)
        holes = (jax.random.uniform(hole_key, (size * size,)) >= frozen) & (cells != first)
        holes = (holes & (cells != goal)).reshape(size, size)
        return key, holes, first, goal

    def unsolvable(carry):
        _, holes, start, goal = carry
        return ~connected(holes, start, goal)

    _, holes, start, goal = jax.lax.while_loop(unsolvable, draw, draw((key, None, None, None)))
    return holes, start, goal


def action_values(
    holes: jax.Array, goal: jax.Array, success_rate: jax.Array, gamma: float = 0.99
) -> jax.Array:
    """Optimal Q f32[4, n, n] of the unlimited, discounted game, by value iteration to 1e-6.

    Q(s, a) = sum_s' P(s' | s, a) [r(s') + gamma V(s')], V = max_a Q; reward 1 on entering the goal.
    """
    n = holes.shape[0]
    final = holes | (jnp.arange(n * n).reshape(n, n) == goal)
    at_goal = (jnp.arange(n * n).reshape(n, n) == goal).astype(jnp.float32)

    def backup(value):
        ahead = neighbours(at_goal + gamma * jnp.where(final, 0.0, value))
        across = (jnp.roll(ahead, 1, axis=0) + jnp.roll(ahead, -1, axis=0)) / 2
        return success_rate * ahead + (1 - success_rate) * across

    def improve(carry):
        value, _ = carry
        new = jnp.max(backup(value), axis=0)
        return new, jnp.max(jnp.abs(new - value))

    value, _ = jax.lax.while_loop(
        lambda carry: carry[1] > 1e-6, improve, (jnp.zeros((n, n)), jnp.array(jnp.inf))
    )
    return backup(value)
