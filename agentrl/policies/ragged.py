"""Tables of rows of different lengths: made on the host, concatenated in the graph."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

# With more pieces than this, changes are added by one scatter instead of piece by piece: twice as
# slow at 36 pieces, but the program stays small.
UNROLLED = 64


def padded_table(
    rows: Sequence[Sequence[int]], dtype: type[np.generic]
) -> tuple[np.ndarray, np.ndarray]:
    """The rows padded with 0 to the longest, [N, M], and their lengths i32[N]."""
    width = max(1, *(len(row) for row in rows))
    table = np.zeros((len(rows), width), dtype)
    for i, row in enumerate(rows):
        table[i, : len(row)] = row
    return table, np.array([len(row) for row in rows], np.int32)


def concatenated(
    table: np.ndarray, lengths: np.ndarray, ids: jax.Array, count: jax.Array, size: int
) -> tuple[jax.Array, jax.Array]:
    """Concatenates the table's rows `ids` i32[K], of which `count` are used.

    Returns ([size], padded with 0; length before truncation).

    Position p of the result is entry p + shift of the flattened table, where the shift changes only
    at the start of each piece: it is the sum of the changes at or before p, so one gather per
    position remains. On a CPU this is four to ten times as fast as searching the piece of each
    position.
    """
    number = ids.shape[0]
    used = jnp.arange(number) < count
    if table.shape[1] == 1 and int(lengths.max()) == 1 and (lengths[1:] == 1).all():
        # One element each, apart from the empty piece, which does not occur among the used
        # ones.
        out = jnp.where(used, jnp.asarray(table[:, 0])[ids], 0)
        out = out[:size] if number >= size else jnp.pad(out, (0, size - number))
        return out, count
    spans = jnp.where(used, jnp.asarray(lengths)[ids], 0)
    ends = _running_sum(spans)
    start, total = ends - spans, ends[-1]
    shift = jnp.where(used, ids * table.shape[1] - start, 0)
    change = jnp.where(used, shift - jnp.pad(shift[:-1], (1, 0)), 0)
    position = jnp.arange(size, dtype=jnp.int32)
    if number <= UNROLLED:
        shift = jnp.zeros(size, jnp.int32)
        for piece in range(number):
            shift = shift + jnp.where(position >= start[piece], change[piece], 0)
    else:
        shift = _running_sum(jnp.zeros(size, jnp.int32).at[start].add(change, mode="drop"))
    out = jnp.asarray(table.reshape(-1))[position + shift]
    return jnp.where(position < total, out, 0), total


def _running_sum(values: jax.Array) -> jax.Array:
    """Cumulative sum of i32[n] by shifted sums, which are vectorised, unlike `cumsum`."""
    for step in (2**p for p in range((values.shape[0] - 1).bit_length())):
        values = values + jnp.pad(values[:-step], (step, 0))
    return values
