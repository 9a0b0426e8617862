"""Level-based foraging on cells numbered by rows; P players, F foods.

Source: lbforaging v3 (read). Its collision rules are kept: players that move to the same cell all
stay, and a player that stays counts as moving to its own cell. So two players can swap places, and
a player can enter the cell of one whose own move failed.
"""

import jax
import jax.numpy as jnp
import numpy as np

NONE, NORTH, SOUTH, WEST, EAST, LOAD = range(6)
# Row and column of the six actions.
STEPS = np.array([(0, 0), (-1, 0), (1, 0), (0, -1), (0, 1), (0, 0)], np.int32)


def place(cells: jax.Array, size: int) -> jax.Array:
    """Rows and columns of cells, i32[..., 2]."""
    return jnp.stack([cells // size, cells % size], axis=-1)


def distance(first: jax.Array, second: jax.Array, size: int) -> jax.Array:
    """Number of steps between cells without obstacles, i32[...]."""
    return jnp.sum(jnp.abs(place(first, size) - place(second, size)), axis=-1)


def generate(
    key: jax.Array,
    size: int,
    players: int,
    foods: int,
    player_level: tuple[jax.Array, jax.Array],
    food_level: tuple[jax.Array, jax.Array],
    force_coop: bool,
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """(cells, levels i32[P], food cells, food levels i32[F]) with foods in order of their cells.

    player_level, food_level: lowest and highest; 0 as the highest of foods is the sum of the lowest
      three players' levels. force_coop: all foods have the highest level. Foods are not on the
      edge, not adjacent (also diagonally), and not two cells apart in a line. A food without such a
      place has level 0.
    """
    key, cell_key, level_key = jax.random.split(key, 3)
    cells = jax.random.permutation(cell_key, size * size)[:players]
    low, high = player_level
    levels = jax.random.randint(level_key, (players,), low, high + 1)
    low, high = food_level
    high = jnp.where(high > 0, high, jnp.sum(jnp.sort(levels)[:3]))
    low = high if force_coop else jnp.minimum(low, high)

    every = jnp.arange(size * size)
    row, col = every // size, every % size
    allowed = (row > 0) & (row < size - 1) & (col > 0) & (col < size - 1)
    allowed &= jnp.all(every[:, None] != cells, axis=1)
    food_cells, food_levels = [], []
    for number in range(foods):
        cell_key, level_key = jax.random.split(jax.random.fold_in(key, number))
        cell = jnp.argmax(jax.random.uniform(cell_key, allowed.shape) * allowed)
        level = jax.random.randint(level_key, (), low, high + 1)
        food_cells.append(cell)
        food_levels.append(jnp.where(jnp.any(allowed), level, 0))
        down, right = jnp.abs(row - row[cell]), jnp.abs(col - col[cell])
        near = (down <= 1) & (right <= 1) | (down + right == 2) & ((down == 0) | (right == 0))
        allowed &= ~near
    food_cells, food_levels = jnp.stack(food_cells), jnp.stack(food_levels)
    order = jnp.argsort(food_cells)
    numbers = (cells, levels, food_cells[order], food_levels[order])
    return tuple(x.astype(jnp.int32) for x in numbers)


def legal(cells: jax.Array, food_cells: jax.Array, food_levels: jax.Array, size: int) -> jax.Array:
    """Legal actions of each player, bool[P, 6]: foods and the edge block moves; loading needs an
    adjacent food."""
    there = place(cells, size)[:, None] + STEPS
    inside = jnp.all((there >= 0) & (there < size), axis=-1)
    target = there[..., 0] * size + there[..., 1]
    food = jnp.any((target[..., None] == food_cells) & (food_levels > 0), axis=-1) & inside
    moves = jnp.arange(6) != LOAD
    loads = jnp.any(food, axis=1, keepdims=True)
    return jnp.where(moves, inside & ~food, loads)


def move(cells: jax.Array, action: jax.Array, size: int) -> jax.Array:
    """Cells i32[P] after legal actions i32[P]; players that would meet in one cell stay."""
    target = cells + jnp.asarray(STEPS @ np.array([size, 1], np.int32))[action]
    alone = jnp.sum(target[:, None] == target, axis=1) == 1
    return jnp.where(alone, target, cells)


def load(
    cells: jax.Array,
    levels: jax.Array,
    food_cells: jax.Array,
    food_levels: jax.Array,
    loads: jax.Array,
    size: int,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Effect of the loading players, bool[P].

    Returns:
      Levels of the foods after it; gain of each player, level x food level / levels of all that
      load that food, f32[P]; players that failed to load, bool[P].
    """
    beside = distance(cells[:, None], food_cells, size) == 1
    beside &= loads[:, None] & (food_levels > 0)
    strength = jnp.sum(jnp.where(beside, levels[:, None], 0), axis=0)
    taken = (strength >= food_levels) & (strength > 0)
    share = levels[:, None] * food_levels / jnp.maximum(strength, 1)
    gains = jnp.sum(jnp.where(beside & taken, share, 0.0), axis=1)
    return (
        jnp.where(taken, 0, food_levels),
        gains,
        jnp.any(beside & ~taken, axis=1),
    )


def choices(
    cells: jax.Array, levels: jax.Array, food_cells: jax.Array, food_levels: jax.Array, size: int
) -> jax.Array:
    """Index of the food that each player goes for, i32[P].

    The nearest that it can load alone; else the one that all together can load in the fewest steps
    in total.
    """
    away = distance(cells[:, None], food_cells, size)
    alone = (food_levels > 0) & (levels[:, None] >= food_levels)
    possible = (food_levels > 0) & (jnp.sum(levels) >= food_levels)
    far = 10 * size * cells.shape[0]
    nearest = jnp.argmin(jnp.where(alone, away, far), axis=1)
    common = jnp.argmin(jnp.where(possible, jnp.sum(away, axis=0), far))
    return jnp.where(jnp.any(alone, axis=1), nearest, common).astype(jnp.int32)


def steps_to(blocked: jax.Array, goal: jax.Array, size: int) -> jax.Array:
    """Steps from each cell to a cell next to the goal around blocked cells, i32[size, size]."""
    far = 4 * size
    every = jnp.arange(size * size)
    start = jnp.where(distance(every, goal, size) == 1, 0, far)
    start = jnp.where(blocked, far, start).reshape(size, size)
    blocked = blocked.reshape(size, size)

    def spread(_, steps):
        padded = jnp.pad(steps, 1, constant_values=far)
        sides = (padded[:-2, 1:-1], padded[2:, 1:-1], padded[1:-1, :-2], padded[1:-1, 2:])
        nearest = jnp.minimum(jnp.minimum(*sides[:2]), jnp.minimum(*sides[2:]))
        return jnp.where(blocked, far, jnp.minimum(steps, nearest + 1))

    return jax.lax.fori_loop(0, 3 * size, spread, start)


def experts(
    cells: jax.Array, levels: jax.Array, food_cells: jax.Array, food_levels: jax.Array, size: int
) -> jax.Array:
    """Actions i32[P] of players that go to their `choices` and load when they are strong enough.

    They walk around each other; if two move to the same cell, the one with the lower number goes.
    """
    chosen = choices(cells, levels, food_cells, food_levels, size)
    goals, needed = food_cells[chosen], food_levels[chosen]
    every = jnp.arange(size * size)
    food = jnp.any((every[:, None] == food_cells) & (food_levels > 0), axis=1)
    around = distance(cells, goals[:, None], size) == 1
    ready = jnp.sum(jnp.where(around, levels, 0), axis=1) >= needed
    actions, wanted = [], cells
    for player in range(cells.shape[0]):
        others = np.delete(np.arange(cells.shape[0]), player)
        taken = jnp.append(wanted[others], cells[others])
        blocked = food | jnp.any(every[:, None] == taken, axis=1)
        steps = steps_to(blocked & (every != cells[player]), goals[player], size)
        row, col = cells[player] // size + STEPS[:LOAD, 0], cells[player] % size + STEPS[:LOAD, 1]
        inside = (row >= 0) & (row < size) & (col >= 0) & (col < size)
        best = jnp.argmin(jnp.where(inside, steps[row, col], 4 * size))
        act = jnp.where(around[player, player], jnp.where(ready[player], LOAD, NONE), best)
        act = jnp.where(jnp.any(food_levels > 0), act, NONE).astype(jnp.int32)
        step = jnp.asarray(STEPS)[act]
        wanted = wanted.at[player].set(cells[player] + step[0] * size + step[1])
        actions.append(act)
    return jnp.stack(actions)
