"""A chain of rooms, each with keys on a line of cells and a locked door at its end.

N rooms of W cells, keys of K colours; every room has one key of each colour.
"""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

COLOURS = ("red", "green", "blue", "yellow", "white", "black")
LEFT, RIGHT, TAKE, OPEN = range(4)


@struct.dataclass
class Chain:
    """State of the chain.

    doors: i32[N], colours of the doors. cells: i32[N, K], cell of the key of each colour; -1 for a
    taken one. room: i32[], doors passed, N behind the last. cell: i32[], the agent's. held: i32[],
    colour of the key in hand, -1 for none. jammed: bool[], a wrong key has been tried.
    """

    doors: jax.Array
    cells: jax.Array
    room: jax.Array
    cell: jax.Array
    held: jax.Array
    jammed: jax.Array


def generate(key: jax.Array, rooms: int, keys: int, width: int) -> Chain:
    """A chain with uniform colours of doors and cells of keys, at its start."""
    door_key, cell_key = jax.random.split(key)
    order = jnp.argsort(jax.random.uniform(cell_key, (rooms, width)), axis=1)
    zero = jnp.zeros((), jnp.int32)
    return Chain(
        doors=jax.random.randint(door_key, (rooms,), 0, keys),
        cells=order[:, :keys].astype(jnp.int32),
        room=zero,
        cell=zero,
        held=zero - 1,
        jammed=jnp.zeros((), bool),
    )


def here(chain: Chain) -> tuple[jax.Array, jax.Array]:
    """Colour of this room's door i32[] and cells of its keys i32[K]; those of the last room at the
    end."""
    room = jnp.minimum(chain.room, chain.doors.shape[0] - 1)
    # A comparison instead of an index: no gather under vmap.
    chosen = np.arange(chain.doors.shape[0]) == room
    door = jnp.sum(jnp.where(chosen, chain.doors, 0))
    return door, jnp.sum(jnp.where(chosen[:, None], chain.cells, 0), axis=0)


def legal(chain: Chain, width: int) -> jax.Array:
    """Steps within the room, taking the key in this cell, opening with a key at the door."""
    _, cells = here(chain)
    last = chain.cell == width - 1
    return jnp.stack(
        [chain.cell > 0, ~last, jnp.any(cells == chain.cell), last & (chain.held >= 0)]
    )


def act(chain: Chain, action: jax.Array) -> Chain:
    """The chain after a legal action.

    Taking a key leaves the held one in its place. The right key opens the door and stays in it, and
    the agent enters the first cell of the next room; a wrong key jams the lock.
    """
    door, cells = here(chain)
    colours = np.arange(cells.shape[0])
    takes, opens = action == TAKE, action == OPEN
    found = cells == chain.cell
    swapped = jnp.where(found, -1, jnp.where(colours == chain.held, chain.cell, cells))
    chosen = np.arange(chain.doors.shape[0]) == chain.room
    right = chain.held == door
    step = jnp.where(action == RIGHT, 1, jnp.where(action == LEFT, -1, 0))
    return chain.replace(
        cells=jnp.where(takes & chosen[:, None], swapped, chain.cells),
        room=chain.room + (opens & right),
        cell=jnp.where(opens & right, 0, chain.cell + step),
        held=jnp.where(takes, jnp.sum(jnp.where(found, colours, 0)), chain.held)
        - (opens & right) * (1 + chain.held),
        jammed=chain.jammed | (opens & ~right),
    )


def reached(chain: Chain) -> jax.Array:
    """Subgoals that hold, bool[K + 1].

    A key's subgoal holds while the key is in hand; the door's while the hands are empty.
    """
    colours = np.arange(chain.cells.shape[1])
    return jnp.append(colours == chain.held, chain.held < 0)


def subgoal(chain: Chain) -> jax.Array:
    """The key of the door's colour, or with it in hand the door, i32[]."""
    door, _ = here(chain)
    return jnp.where(chain.held == door, chain.cells.shape[1], door).astype(jnp.int32)


def expert(chain: Chain, width: int) -> jax.Array:
    """The next action of a shortest path through all doors, i32[]; to the right behind the last."""
    door, cells = here(chain)
    equipped = chain.held == door
    lies = jnp.sum(jnp.where(np.arange(cells.shape[0]) == door, cells, 0))
    target = jnp.where(equipped, width - 1, lies)
    arrived = jnp.where(equipped, OPEN, TAKE)
    way = jnp.where(target > chain.cell, RIGHT, LEFT)
    action = jnp.where(target == chain.cell, arrived, way)
    return jnp.where(chain.room < chain.doors.shape[0], action, RIGHT).astype(jnp.int32)
