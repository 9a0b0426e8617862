"""Screens of an application as a tree, and the shortest paths between them.

Screens are numbered level by level, screen 0 being the root. A move is the position of an element
on a screen: the children 0 .. B - 1 (B the widest branching), then BACK to the parent and HOME to
the root. Children exist above the last level, BACK below the root, HOME below the first level.
Read in code: GE-Lab's generator of trees in a fork (namhkoh/gelab-env).
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

ICONS = tuple(
    """
    sun car key cat bell book star fish leaf moon tree drum kite lamp ring rose ship boat cake coin
    crown dice door duck flag gift hand harp hat heart house ice iron jar leg lock map mask mug nut
    owl pan pear pen pig pin pot rain rat saw shoe snow sock sofa soap tent toy van wave web wolf
    """.split()
)


class Tree(NamedTuple):
    """A tree of S screens; it is constant, so all fields are NumPy arrays.

    reach: i8[S, B + 2], target of each move, -1 for none. distance: u8[S, S], length of a shortest
    path. hop: u8[S, S], its first move; of equally short paths the first.
    """

    reach: np.ndarray
    distance: np.ndarray
    hop: np.ndarray


@functools.lru_cache(maxsize=16)
def tree(branching: tuple[int, ...]) -> Tree:
    """The tree in which a screen of level d has branching[d] children."""
    widest = max(branching)
    parents, level = [-1], [0]
    for children in branching:
        above, level = level, []
        for parent in above:
            level += range(len(parents), len(parents) + children)
            parents += [parent] * children
    screens = len(parents)
    reach = np.full((screens, widest + 2), -1, np.int8)
    for screen, parent in enumerate(parents):
        if parent >= 0:
            reach[parent, np.argmax(reach[parent] < 0)] = screen
            reach[screen, widest] = parent
        if parent > 0:
            reach[screen, widest + 1] = 0
    distance = np.where(np.eye(screens, dtype=bool), 0, screens)
    for _ in range(screens):
        ahead = np.where(reach[..., None] >= 0, distance[reach], screens)
        distance = np.minimum(distance, 1 + ahead.min(axis=1))
    hop = np.argmin(np.where(reach[..., None] >= 0, distance[reach], screens), axis=1)
    return Tree(reach, distance.astype(np.uint8), hop.astype(np.uint8))


def size(branching: tuple[int, ...]) -> int:
    """Number of screens S of a tree: the root and all levels below it."""
    return int(1 + np.cumprod(branching).sum())


def names(key: jax.Array, branching: tuple[int, ...], icons: int, aliased: bool) -> jax.Array:
    """Draws the icon that leads to each screen, u8[S]; the root has none, its index is `icons`.

    aliased: only the icons of one screen differ from each other; otherwise all do.
    """
    screens, widest = size(branching), max(branching)
    if not aliased:
        drawn = jax.random.permutation(key, icons)[: screens - 1]
    else:
        order = jnp.argsort(jax.random.uniform(key, (screens, icons)), axis=1)[:, :widest]
        reach = tree(branching).reach[:, :widest]
        parent, place = np.nonzero(reach >= 0)
        drawn = order[parent, place][np.argsort(reach[parent, place])]
    return jnp.append(icons, drawn).astype(jnp.uint8)


@functools.lru_cache(maxsize=16)
def pairs(branching: tuple[int, ...], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of different screens (start, goal), split at random: u8[3/4, 2] and u8[1/4, 2]."""
    screens = size(branching)
    start, goal = np.nonzero(~np.eye(screens, dtype=bool))
    order = np.random.default_rng(seed).permutation(len(start))
    every = np.stack([start, goal], axis=1).astype(np.uint8)[order]
    return tuple(np.split(every, [3 * len(every) // 4]))
