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


def split(stacked: chex.ArrayTree, kinds: Sequence[Hashable]) -> tuple[chex.ArrayTree, ...]:
    """Arrays [layers, ...] as [repeats, period, ...] of each run, or [repeats, ...] for period 1
    (with a further axis of size 1, XLA copies the weights to another layout on a CPU)."""

    def cut(run, x):
        x = x if run.stop - run.start == x.shape[0] else x[run.start : run.stop]
        return x if run.period == 1 else x.reshape(run.repeats, run.period, *x.shape[1:])

    return tuple(jax.tree.map(functools.partial(cut, run), stacked) for run in runs(kinds))


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
        looped = unroll < run.period * run.repeats

        def group(carry, inputs, run=run, looped=looped):
            number, arrays = inputs
            for j in range(run.period):
                one = functools.partial(block, kinds[run.start + j])
                if remat:
                    # Within a loop no common subexpression joins the two passes.
                    one = jax.checkpoint(one, prevent_cse=not looped)
                layer = arrays if run.period == 1 else jax.tree.map(lambda x, j=j: x[j], arrays)
                carry = one(layer, number + j, carry)
            return carry, None

        numbers = jnp.arange(run.start, run.stop, run.period, dtype=jnp.int32)
        carry, _ = jax.lax.scan(group, carry, (numbers, part), unroll=-(-unroll // run.period))
    return carry
