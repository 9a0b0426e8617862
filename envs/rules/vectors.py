"""Vectors as tuples of components, each its own array of any shape.

Elementwise code over whole batches is all that comes of it: on a CPU this is the fast layout (see
`launchers.benchmarks.volleyball`). Two and three components work alike; the last one points up.
"""

from functools import reduce

import jax
import jax.numpy as jnp

Vector = tuple[jax.Array, ...]


def add(a: Vector, b: Vector) -> Vector:
    """a + b."""
    return tuple(x + y for x, y in zip(a, b, strict=True))


def sub(a: Vector, b: Vector) -> Vector:
    """a - b."""
    return tuple(x - y for x, y in zip(a, b, strict=True))


def scale(a: Vector, factor: jax.Array) -> Vector:
    """a times a number."""
    return tuple(x * factor for x in a)


def along(a: Vector, b: Vector, factor: jax.Array) -> Vector:
    """a + b times a number."""
    return tuple(x + y * factor for x, y in zip(a, b, strict=True))


def dot(a: Vector, b: Vector) -> jax.Array:
    """Inner product."""
    return reduce(jnp.add, [x * y for x, y in zip(a, b, strict=True)])


def norm(a: Vector) -> jax.Array:
    """Length."""
    return jnp.sqrt(dot(a, a))


def select(condition: jax.Array, a: Vector, b: Vector) -> Vector:
    """a where the condition holds, else b."""
    return tuple(jnp.where(condition, x, y) for x, y in zip(a, b, strict=True))


def turned(a: Vector, sign: jax.Array) -> Vector:
    """Horizontal components times `sign`: -1 turns the court by half a turn about the vertical."""
    return (*(x * sign for x in a[:-1]), a[-1])
