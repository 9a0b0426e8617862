"""The decoder's layers as stacked arrays [layers, ...], applied by a loop that is compiled once.

Layers differ in what must be known when the program is compiled: their kind (the window of
attention, the frequencies of RoPE). Runs of layers whose kinds repeat are one `jax.lax.scan` over
the repetitions, each of which computes one layer of every kind. A model of equal layers is one
scan; Gemma 2 is a scan over pairs of layers; Gemma 3 over groups of six, and one over the rest.
"""

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from agentrl.devices.placement import platform


class Separate(NamedTuple):
    """A matrix of each layer of a run, as arrays of their own, which no loop has to slice."""

    matrices: tuple[jax.Array, ...]


class Chosen(NamedTuple):
    """One of several layers' matrices, by its number, i32[]."""

    matrices: tuple[jax.Array, ...]
    number: jax.Array


def product(x: jax.Array, matrix: jax.Array | Chosen) -> jax.Array:
    """x @ matrix of x [n, in], in the dtype of x."""
    if isinstance(matrix, Chosen):
        branches = [functools.partial(product, matrix=m) for m in matrix.matrices]
        return jax.lax.switch(matrix.number, branches, x)
    if _narrow_on_cpu(x):
        return summed_wide(x, matrix, False).astype(x.dtype)
    return x @ matrix.astype(x.dtype)


def wide_product(x: jax.Array, matrix: jax.Array, *, turned: bool = False) -> jax.Array:
    """x @ matrix of x [n, in], whose factors have the dtype of x, in float32.

    turned: the matrix is [out, in].
    """
    if _narrow_on_cpu(x):
        return summed_wide(x, matrix, turned)
    matrix = (matrix.T if turned else matrix).astype(x.dtype)
    return jnp.matmul(x, matrix, preferred_element_type=jnp.float32)


def _narrow_on_cpu(x: jax.Array) -> bool:
    return x.dtype == jnp.bfloat16 and platform() == "cpu"


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def summed_wide(x: jax.Array, matrix: jax.Array, turned: bool) -> jax.Array:
    """`wide_product` of x bf16[n, in] on a CPU: f32[n, out].

    XLA has kernels for bfloat16 there (YNNPACK's, with AMX where there is) for products of
    row-major arrays with a float32 result only; every other one it computes in float32 after
    conversions, slower than float32 itself. That is the case of jnp.matmul with a bfloat16 result,
    and of the gradient with respect to the matrix, x^T g, whose transpose XLA folds into the
    product as a change of layout. A transpose of three axes, which is no such change, is computed
    first. The cotangent is rounded to bfloat16; that of `product` is so anyway, that of logits on a
    CPU alone.
    """
    contracted = (((1,), (1 if turned else 0,)), ((), ()))
    return _wide(x, matrix.astype(x.dtype), contracted)


def _wide(x: jax.Array, y: jax.Array, contracted: Any) -> jax.Array:
    return jax.lax.dot_general(x, y, contracted, preferred_element_type=jnp.float32)


def _summed_wide(x, matrix, turned):
    return summed_wide(x, matrix, turned), (x, matrix)


def _gradients(turned, kept, g):
    x, matrix = kept
    g = g.astype(x.dtype)
    by_x = _wide(g, matrix.astype(x.dtype), (((1,), (0 if turned else 1,)), ((), ())))
    left, right = (g, x) if turned else (x, g)
    if left.shape[0] % 2:
        left, right = (jnp.pad(y, ((0, 1), (0, 0))) for y in (left, right))
    left = left.reshape(-1, 2, left.shape[1]).transpose(2, 0, 1).reshape(left.shape[1], -1)
    by_matrix = _wide(left, right, (((1,), (0,)), ((), ())))
    return by_x.astype(x.dtype), by_matrix.astype(matrix.dtype)


summed_wide.defvjp(_summed_wide, _gradients)


def _is_separate(node: chex.ArrayTree) -> bool:
    return isinstance(node, Separate)


class Run(NamedTuple):
    """`repeats` repetitions of the kinds of the `period` layers from `start` on."""

    start: int
    period: int
    repeats: int

    @property
    def stop(self) -> int:
        """The layer after the last one."""
        return self.start + self.period * self.repeats


def runs(kinds: Sequence[Hashable]) -> tuple[Run, ...]:
    """All layers in order, each run as long as possible, and of the shortest period."""
    kinds, out, start = tuple(kinds), [], 0
    while start < len(kinds):
        best = Run(start, 1, 1)
        for period in range(1, (len(kinds) - start) // 2 + 1):
            first, repeats = kinds[start : start + period], 1
            while kinds[start + repeats * period :][:period] == first:
                repeats += 1
            run = Run(start, period, repeats)
            if repeats > 1 and run.stop > best.stop:
                best = run
        out.append(best)
        start = best.stop
    return tuple(out)


def split(
    stacked: chex.ArrayTree, kinds: Sequence[Hashable], *, separate: bool = False
) -> tuple[chex.ArrayTree, ...]:
    """Arrays [layers, ...] as [repeats, period, ...] of each run, or [repeats, ...] for period 1
    (with a further axis of size 1, XLA copies the weights to another layout on a CPU).

    separate: kernels become `Separate`. On a CPU a loop copies each layer's matrices out of the
    stacked ones before it multiplies with them: a third of the products' time with 16 rows.
    """

    def cut(run, path, x):
        if separate and path[-1].key == "kernel":
            return Separate(tuple(x[i] for i in range(run.start, run.stop)))
        x = x if run.stop - run.start == x.shape[0] else x[run.start : run.stop]
        return x if run.period == 1 else x.reshape(run.repeats, run.period, *x.shape[1:])

    by_path = jax.tree_util.tree_map_with_path
    return tuple(by_path(functools.partial(cut, run), stacked) for run in runs(kinds))


def apply(
    block: Callable[[Any, chex.ArrayTree, jax.Array, chex.ArrayTree], chex.ArrayTree],
    carry: chex.ArrayTree,
    parts: Sequence[chex.ArrayTree],
    kinds: Sequence[Hashable],
    *,
    unroll: int = 1,
    remat: bool = False,
) -> chex.ArrayTree:
    """Applies all layers in order: carry = block(kind, layer's arrays, its number i32[], carry).

    parts: as returned by `split`. unroll: layers per iteration of a loop, rounded up to a multiple
    of a run's period. remat: the backward pass keeps the carries only and computes each block anew.
    """
    for run, part in zip(runs(kinds), parts, strict=True):
        leaves, tree = jax.tree.flatten(part, is_leaf=_is_separate)
        looped = unroll < run.period * run.repeats

        def group(carry, inputs, run=run, looped=looped, leaves=leaves, tree=tree):
            number, arrays = inputs
            repeat = (number - run.start) // run.period

            def layer(j):
                for whole, x in zip(leaves, arrays, strict=True):
                    if x is None:
                        yield Chosen(whole.matrices[j :: run.period], repeat)
                    else:
                        yield x if run.period == 1 else x[j]

            for j in range(run.period):
                one = functools.partial(block, kinds[run.start + j])
                if remat:
                    # Within a loop no common subexpression joins the two passes.
                    one = jax.checkpoint(one, prevent_cse=not looped)
                carry = one(tree.unflatten(layer(j)), number + j, carry)
            return carry, None

        numbers = jnp.arange(run.start, run.stop, run.period, dtype=jnp.int32)
        sliced = [None if _is_separate(x) else x for x in leaves]
        carry, _ = jax.lax.scan(group, carry, (numbers, sliced), unroll=-(-unroll // run.period))
    return carry
