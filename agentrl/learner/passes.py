"""Passes over a batch, a microbatch at a time: gradients, and log-probabilities without them."""

import functools
from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp

from agentrl.devices.placement import along_data
from agentrl.policies.protocol import AnyPolicy
from agentrl.streams import Rows, length_up_to

# The shortest compiled length and the ratio of two neighbouring ones, unless more of them are
# asked for: a pass over rows that are as long as half the compiled length wastes half of it.
SHORTEST, RATIO = 1 / 8, 1 / 2


def compiled_lengths(longest: int, number: int, shared: int = 0) -> tuple[int, ...]:
    """Lengths of passes, rising to `longest`, each by the same factor to the one before.

    With eight of them or more a pass is on average a seventh longer than its rows, whether these
    are long or short. Real lengths are often a fraction of the longest possible one, where evenly
    spaced lengths are too far apart.

    Args:
      number: how many, at most.
      shared: leading positions that a pass computes once for all rows. The rest is divided.
    """
    rest = longest - shared
    ratio = max(RATIO, SHORTEST ** (1 / max(number - 1, 1)))
    steps = (rest * ratio**step for step in range(number))
    # Rounding must not make a length longer than the longest.
    return tuple(sorted({shared + max(1, min(rest, round(x))) for x in steps}))


class _Passes:
    """Rows in order of falling length, and the length of each pass over `microbatch` of them.

    length: i32[R], leading positions of each row that matter; 0 for none. order: i32[R]. count:
    i32[], passes until no row with anything to compute is left.
    """

    def __init__(self, length: jax.Array, microbatch: int, sizes: tuple[int, ...], unit: int = 1):
        if unit > 1:
            of_unit = jnp.max(length.reshape(-1, unit), axis=1)
            order = jnp.argsort(-of_unit, stable=True)
            order = (order[:, None] * unit + jnp.arange(unit)).reshape(-1)
            length = jnp.repeat(of_unit, unit)
        else:
            order = jnp.argsort(-length, stable=True)
        self.order, self._length = order, length[order]
        self._microbatch, self._sizes = microbatch, jnp.asarray(sizes)
        some = jnp.sum(length > 0, dtype=jnp.int32)
        self.count = -(-some // microbatch)

    def size(self, i: jax.Array | int) -> jax.Array:
        """Number of the shortest of the sizes that holds the rows of pass i."""
        return jnp.searchsorted(self._sizes, self._length[i * self._microbatch])

    def rows(self, batch: chex.ArrayTree, i: jax.Array | int) -> chex.ArrayTree:
        """The rows of pass i of a batch that is in order."""
        size = self._microbatch
        return along_data(
            jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, i * size, size), batch)
        )


def gradients(
    loss_of: Callable[[chex.ArrayTree, Any], tuple[jax.Array, Any]],
    params: chex.ArrayTree,
    batch: chex.ArrayTree,
    length: jax.Array,
    *,
    longest: int,
    microbatch: int | None,
    lengths: int = 1,
    shared: int = 0,
    unit: int = 1,
    head: Callable[[Any, int], Any] = lambda part, length: part,
) -> tuple[jax.Array, Any, chex.ArrayTree]:
    """(loss, metrics, gradients) of a batch of R rows, each a sum over its microbatches.

    Args:
      loss_of: (params, part of the batch) -> (loss, metrics), where the losses and metrics of the
        parts add up to those of the whole.
      length: i32[R], leading positions of each row that the loss depends on; 0 for none.
      longest: positions of the rows, an upper bound of `length`.
      microbatch: rows per forward and backward pass, a divisor of R; None for all at once. Rows
        go in order of falling length, and the passes end with the last that has any: memory is that
        of one microbatch, and empty rows cost nothing.
      lengths, shared: a pass is cut to the shortest of the `compiled_lengths` that holds its
        longest row.
      unit: neighbouring rows that stay in one microbatch.
      head: (part of the batch, l) -> its first l positions; default: nothing is cut.
    """
    function = jax.value_and_grad(loss_of, has_aux=True)
    if microbatch is None:
        (loss, metrics), grads = function(params, batch)
        return loss, metrics, grads
    sizes = compiled_lengths(longest, lengths, shared)
    passes = _Passes(length, microbatch, sizes, unit)
    batch = jax.tree.map(lambda x: x[passes.order], batch)
    branches = [
        functools.partial(lambda size, x: function(params, head(x, size)), size)
        for size in sizes[:-1]
    ]
    branches.append(functools.partial(function, params))

    def add(i, total):
        part = passes.rows(batch, i)
        return jax.tree.map(jnp.add, total, jax.lax.switch(passes.size(i), branches, part))

    shapes = jax.eval_shape(function, params, passes.rows(batch, 0))
    zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
    (loss, metrics), grads = jax.lax.fori_loop(0, passes.count, add, zeros)
    return loss, metrics, grads


def log_probs(
    policy: AnyPolicy,
    params: chex.ArrayTree,
    rows: Rows,
    microbatch: int | None,
    lengths: int = 1,
    *,
    field: str = "logp",
) -> jax.Array:
    """Log-probabilities f32[R, L] of the trained positions (`rows.loss_mask`); elsewhere arbitrary.

    field: of `agentrl.policies.scoring.Scored`, for "entropy" or "value" instead.
    microbatch: rows at a time; None, or a number that does not divide the rows: all at once.
    lengths: as in `gradients`, for language policies.
    """
    count, longest = rows.loss_mask.shape
    if microbatch is None or count % microbatch:
        return getattr(policy.score(params, rows), field)
    sizes = compiled_lengths(longest, lengths, policy.shared_positions(longest))
    passes = _Passes(length_up_to(rows.loss_mask), microbatch, sizes)
    rows = jax.tree.map(lambda x: x[passes.order], rows)

    def scored(size, part):
        part = part.head(size)
        found = getattr(policy.score(params, part, part.loss_mask), field)
        return jnp.pad(found, ((0, 0), (0, longest - size)))

    nothing = jnp.zeros((microbatch, longest))
    branches = [functools.partial(scored, size) for size in sizes] + [lambda part: nothing]

    def one(i):
        which = jnp.where(i < passes.count, passes.size(i), len(sizes))
        return jax.lax.switch(which, branches, passes.rows(rows, i))

    found = along_data(jax.lax.map(one, jnp.arange(count // microbatch)), 1)
    return found.reshape(count, longest)[jnp.argsort(passes.order)]
