"""Rules of the coin collector, as pure functions on one map.

A map of R rooms is `exits` i8[R, 4]: the room behind each exit, -1 where there is none. Exits are 0
north, 1 south, 2 east, 3 west, so the reverse of direction d is d ^ 1. Rooms are joined by exits
only and have no coordinates: rooms that would coincide in the plane are different.
Read in code: TextWorld 1.7 `tw_coin_collector`.
"""

import jax
import jax.numpy as jnp
import numpy as np

# The directions in compass order, in which the reverse is two further.
COMPASS = np.array([0, 2, 1, 3], np.int8)


def level_options(level: int) -> dict[str, int]:
    """Options of `Coin-v1` for TextWorld's level 1 to 300.

    Level 100 d + q has a chain of q rooms and d distractors per chain room. TextWorld 1.7 refuses
    maps of more than 100 rooms. Its documentation says that levels from 201 on place distractors at
    random; its code does so from 301 on, which is not a level, so all are placed alike.
    """
    distractors, quest_length = (level - 1) // 100, (level - 1) % 100 + 1
    rooms = quest_length * (1 + distractors)
    if not 1 <= level <= 300 or rooms > 100:
        raise ValueError(
            f"level {level}: expected 1 to 300 with at most 100 rooms (this one would have "
            f"{rooms}); choose 1-100, 101-150 or 201-233"
        )
    return {
        "quest_length": quest_length,
        "distractors": distractors,
        "num_names": max(32, rooms),
    }


def generate(key: jax.Array, quest_length: int, distractors: int) -> jax.Array:
    """Draws `exits` i8[R, 4], R = quest_length (1 + distractors).

    Rooms 0 to quest_length - 1 are the chain: each is behind a uniform free exit of its
    predecessor. Then `distractors` (at most 2) rounds of dead ends, one per chain room, each behind
    a uniform free exit.
    """
    turn_key, entry_key = jax.random.split(key)
    # A chain room uses its three other exits in random order: onwards, then for dead ends. The
    # first room also gets an entry that it never opens, which does not change the distribution:
    # three different exits out of four in random order.
    turns = 1 + jnp.argsort(jax.random.uniform(turn_key, (quest_length, 3)), axis=1)
    entry = jax.random.randint(entry_key, (), 0, 4)
    entry = entry + jnp.cumsum(jnp.pad(turns[:-1, 0] + 2, (1, 0)))
    ways = jnp.asarray(COMPASS)[(entry[:, None] + turns) % 4]
    chain = np.arange(quest_length)
    child = np.arange(1, quest_length * (1 + distractors))
    parent = np.concatenate([chain[:-1], np.tile(chain, distractors)])
    order = np.concatenate(
        [np.zeros(quest_length - 1, int), 1 + np.repeat(np.arange(distractors), quest_length)]
    )
    way = ways[parent, order]
    exits = jnp.full((len(child) + 1, 4), -1, jnp.int8)
    exits = exits.at[parent, way].set(child.astype(np.int8))
    return exits.at[child, way ^ 1].set(parent.astype(np.int8))


def neighbours(exits: jax.Array, room: jax.Array) -> jax.Array:
    """Rooms behind the four exits of `room`, i8[4]; -1 where there is none."""
    here = jnp.arange(exits.shape[0], dtype=jnp.int8) == room
    return jnp.sum(jnp.where(here[:, None], exits + 1, 0), axis=0, dtype=jnp.int8) - 1


def distances(exits: jax.Array, target: jax.Array) -> jax.Array:
    """Moves from each room to room `target`, i32[R]; R where it cannot be reached."""
    rooms = exits.shape[0]
    joined = jnp.any(exits[:, :, None] == jnp.arange(rooms), axis=1)

    def relax(carry):
        distance, _ = carry
        nearest = jnp.min(jnp.where(joined, distance, rooms), axis=1)
        shorter = jnp.minimum(distance, nearest + 1)
        return shorter, jnp.any(shorter != distance)

    start = jnp.where(jnp.arange(rooms) == target, 0, rooms)
    distance, _ = jax.lax.while_loop(lambda carry: carry[1], relax, (start, jnp.array(True)))
    return distance
