"""Names of receptacles and things, and slots of commands, for both wordings of the household."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from envs.household import classes, rules
from envs.household import tasks as generation
from envs.household.env import Household
from envs.household.rules import House, has
from envs.text import Lexicon


class Words(NamedTuple):
    """Fragment indices of the names; classes and counts are consecutive."""

    receptacles: np.int32
    objects: np.int32
    counts: np.int32

    def receptacle(self, kind: jax.Array) -> jax.Array:
        """Fragment of a class of receptacles, 0 for an empty slot."""
        return jnp.where(kind == rules.NONE, 0, self.receptacles + kind)

    def thing(self, kind: jax.Array) -> jax.Array:
        """Fragment of a class of things, 0 for an empty slot."""
        return jnp.where(kind == rules.NONE, 0, self.objects + kind)


def block(lexicon: Lexicon, fragments: list[str]) -> np.int32:
    """Adds fragments that must be new: the index of the i-th is that of the first plus i."""
    numbers = lexicon.table(fragments)
    if np.any(np.diff(numbers) != 1):
        raise ValueError(
            f"fragments {fragments} : expected different ones that are new to the lexicon"
        )
    return numbers[0]


def make_words(env: Household, lexicon: Lexicon, lead: str, short: bool) -> Words:
    """Adds the names of all classes, each preceded by `lead`, and the numbers " 1", " 2", ..."""

    def named(names: tuple[str, ...]) -> list[str]:
        return [lead + (short and classes.SHORT.get(name) or name.lower()) for name in names]

    return Words(
        block(lexicon, named(classes.RECEPTACLES)),
        block(lexicon, named(classes.OBJECTS)),
        block(lexicon, [f" {n}" for n in range(1, max(env.receptacles, env.objects) + 1)]) - 1,
    )


def select(slot: jax.Array, values: jax.Array) -> jax.Array:
    """values[slot], 0 for -1: by comparison, since a gather costs more under vmap."""
    chosen = np.arange(values.shape[0]) == slot
    return jnp.sum(jnp.where(chosen, values, 0), dtype=jnp.int32)


def make_slots(words: Words) -> Callable[[Any, Any], dict[str, jax.Array]]:
    """The slots of both wordings: receptacle [R, 2], object [M, 2], here and hand [1, 2]."""

    def slots(state, params):
        house, home = state.house, state.house.home
        stands = words.receptacle(home.receptacle_class.astype(jnp.int32))
        things = words.thing(home.object_class.astype(jnp.int32))
        stand_numbers = jnp.where(stands == 0, 0, words.counts + home.receptacle_number)
        thing_numbers = jnp.where(things == 0, 0, words.counts + home.object_number)
        receptacle = jnp.stack([stands, stand_numbers], axis=-1)
        thing = jnp.stack([things, thing_numbers], axis=-1)

        def one(slot, values):
            return jnp.stack([select(slot, values[:, 0]), select(slot, values[:, 1])])[None]

        return {
            "receptacle": receptacle,
            "object": thing,
            "here": one(house.location, receptacle),
            "hand": one(house.hand, thing),
        }

    return slots


def properties(house: House, thing: jax.Array) -> jax.Array:
    """Index of a thing's properties, i32[]: 0 none, 1 hot, 2 cool; plus 3 clean; plus 6 sliced."""
    warmth = has(house.hot, thing) + 2 * has(house.cool, thing)
    return (warmth + 3 * has(house.clean, thing) + 6 * has(house.sliced, thing)).astype(jnp.int32)


def longest(names: tuple[str, ...], short: bool = False) -> int:
    """Characters of the longest name. short: of the names' short forms, where there are any."""
    return max(len(short and classes.SHORT.get(name) or name) for name in names)


def widest_list(receptacles: int, *, short: bool, once: bool) -> int:
    """Bytes of the names in the longest list of `count` receptacles that a layout allows.

    once: a class is named only once.
    """
    sizes = np.array([len(short and classes.SHORT.get(n) or n) for n in classes.RECEPTACLES])
    widest = 0
    for row in generation.layouts():
        kinds = row[row != rules.NONE]
        lengths = np.sort(sizes[np.unique(kinds) if once else kinds])
        widest = max(widest, int(lengths[-receptacles:].sum()))
    return widest
