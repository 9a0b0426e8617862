"""Chunked computation of logits and attention scores, which do not fit in memory at once."""

from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp

from agentrl.devices.placement import devices, platform

# Numbers that exist at once on a device: 256 MiB of float32 on a CPU. Accelerators have more
# memory, and each chunk there re-reads the weights and accumulates their gradient.
ON_CPU, ELSEWHERE = 2**26, 2**28


# Where results are needed at some positions only: chunks per row, positions of all rows together in
# a chunk at least (each chunk re-reads the weights and accumulates their gradient), and numbers
# below which all positions are computed.
PARTS, SMALLEST, DIRECT = 8, 64, 2**20


def in_chunks(
    function: Callable[..., chex.ArrayTree],
    *arrays: jax.Array | None,
    width: int,
    limit: int | None = None,
) -> chex.ArrayTree:
    """Applies `function` to arrays [B, L, ...] in chunks of positions, to limit memory.

    function: (*arrays at some positions) -> arrays [B, L', ...] of these positions, with `width`
    intermediate numbers per position. limit: such numbers at once on a device (default: by
    platform), but at least those of all rows at one position. With more than one chunk, the
    backward pass recomputes each chunk.
    """
    rows, length = arrays[0].shape[:2]
    size = _positions(rows, width, limit)
    if size >= length:
        return function(*arrays)
    count = -(-length // size)
    # Chunks of nearly equal size.
    size = -(-length // count)

    def cut(x):
        x = jnp.pad(x, [(0, 0), (0, count * size - length)] + [(0, 0)] * (x.ndim - 2), mode="edge")
        return jnp.moveaxis(x.reshape(rows, count, size, *x.shape[2:]), 1, 0)

    def put(x):
        return jnp.moveaxis(x, 0, 1).reshape(rows, count * size, *x.shape[3:])[:, :length]

    chunks = jax.tree.map(cut, arrays)
    return jax.tree.map(put, jax.lax.map(lambda chunk: jax.checkpoint(function)(*chunk), chunks))


def where_needed(
    function: Callable[..., chex.ArrayTree],
    params: chex.ArrayTree,
    x: jax.Array,
    *others: jax.Array | None,
    needed: jax.Array,
    width: int,
    limit: int | None = None,
) -> chex.ArrayTree:
    """`function` at the positions `needed` bool[B, L], at a cost that follows their number.

    function: (params, x, *others at some positions) -> arrays [B, L', ...] of these positions.
    Gradients are with respect to params and x [B, L, ...]; others [B, L, ...] have none. Returns 0
    or the result at the other positions. width, limit: as in `in_chunks`.

    Needed positions of each row are put first; passes over chunks end with the last that has any,
    forwards and backwards, which a loop differentiated by JAX cannot.
    """
    rows, length = needed.shape
    if rows * length * width <= DIRECT * devices():
        return function(params, x, *others)
    smallest = max(-(-length // PARTS), SMALLEST * devices() // rows)
    size = min(length, smallest, _positions(rows, width, limit))
    order = jnp.argsort(~needed, axis=1, stable=True)
    padding = -length % size

    def at(x, index):
        return jnp.take_along_axis(x, index.reshape(*index.shape, *[1] * (x.ndim - 2)), axis=1)

    def sort(x):
        return jnp.pad(at(x, order), [(0, 0), (0, padding)] + [(0, 0)] * (x.ndim - 2))

    some = jnp.max(jnp.sum(needed, axis=1, dtype=jnp.int32))
    chunks = _over_chunks(function, size)
    out = chunks(params, *jax.tree.map(sort, (x, others)), -(-some // size))
    back = jnp.argsort(order, axis=1)
    return jax.tree.map(lambda x: at(x, back), out)


def _over_chunks(function, size):
    """(params, x, others, count) -> results of the first `count` chunks of `size` positions."""

    def cut(tree, i):
        return jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, i * size, size, 1), tree)

    def put(whole, part, i):
        return jax.tree.map(
            lambda x, y: jax.lax.dynamic_update_slice_in_dim(x, y, i * size, 1), whole, part
        )

    @jax.custom_vjp
    def run(params, x, others, count):
        shapes = jax.eval_shape(lambda: function(params, x, *others))
        nothing = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)

        def one(i, out):
            return put(out, function(params, cut(x, i), *cut(others, i)), i)

        return jax.lax.fori_loop(0, count, one, nothing)

    def forward(*inputs):
        return run(*inputs), inputs

    def backward(inputs, slopes):
        params, x, others, count = inputs

        def one(i, carry):
            total, of_x = carry
            here = cut(others, i)
            _, pull = jax.vjp(lambda params, x: function(params, x, *here), params, cut(x, i))
            part, of_part = pull(cut(slopes, i))
            return jax.tree.map(jnp.add, total, part), put(of_x, of_part, i)

        nothing = jax.tree.map(jnp.zeros_like, (params, x))
        return *jax.lax.fori_loop(0, count, one, nothing), None, None

    run.defvjp(forward, backward)
    return run


def _positions(rows: int, width: int, limit: int | None) -> int:
    """Positions of each row at once."""
    if limit is None:
        limit = ON_CPU if platform() == "cpu" else ELSEWHERE
    return max(1, limit * devices() // (rows * width))
