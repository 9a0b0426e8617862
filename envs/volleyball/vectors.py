"""Vectors as tuples of components, each an array of any shape.

This gives elementwise code over whole batches, which is the fast layout on a CPU (see
`launchers.benchmarks.volleyball`). It works for two and three components; the last one points up.
"""

from functools import reduce

import jax
import jax.numpy as jnp

Vector = tuple[jax.Array, ...]


def add(a: Vector, b: Vector) -> Vector:
    """The sum a + b of two vectors, each a tuple of one array per component."""
    return tuple(x + y for x, y in zip(a, b, strict=True))


def sub(a: Vector, b: Vector) -> Vector:
    """a - b by component, the vector from b to a."""
    return tuple(x - y for x, y in zip(a, b, strict=True))


def scale(a: Vector, factor: jax.Array) -> Vector:
    """a times a factor, an array of the components' shape or one that broadcasts with it."""
    return tuple(x * factor for x in a)


def along(a: Vector, b: Vector, factor: jax.Array) -> Vector:
    """a + factor b; factor: as in `scale`."""
    return tuple(x + y * factor for x, y in zip(a, b, strict=True))


def dot(a: Vector, b: Vector) -> jax.Array:
    """Inner product over the components, an array of their shape."""
    return reduce(jnp.add, [x * y for x, y in zip(a, b, strict=True)])


def norm(a: Vector) -> jax.Array:
    """Euclidean length, f32 of the components' shape."""
    return jnp.sqrt(dot(a, a))


def select(condition: jax.Array, a: Vector, b: Vector) -> Vector:
    """a where the condition holds, else b."""
    return tuple(jnp.where(condition, x, y) for x, y in zip(a, b, strict=True))


def turned(a: Vector, sign: jax.Array) -> Vector:
    """Horizontal components times `sign`: -1 turns the court by half a turn about the vertical."""
    return (*(x * sign for x in a[:-1]), a[-1])
