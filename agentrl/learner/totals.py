"""Metrics in the loops of an update: one array instead of dozens, for smaller programs.

A metric of its own in a loop costs a buffer, a write in each step, a sum and a select. The metrics
of configs/start/cartpole_ppo.py were 17 % of its compiled instructions; as one array they are 12 %.
"""

from collections.abc import Mapping

import chex
import jax
import jax.numpy as jnp
from flax import struct


class Totals(struct.PyTreeNode):
    """Totals and weights of metrics by name; values: f32[..., K, 2]."""

    values: jax.Array
    names: tuple[str, ...] = struct.field(pytree_node=False)

    def by_name(self) -> dict[str, jax.Array]:
        """Each metric by its name, f32[..., 2]: (sum over what was counted, weight or count)."""
        return {name: self.values[..., i, :] for i, name in enumerate(self.names)}


def sums(arrays: chex.ArrayTree) -> chex.ArrayTree:
    """The sum of each array, f32[]. Arrays of one shape are summed in one operation.

    A CPU's program for a sum is three loops; the sums of a minibatch were a quarter of its loops.
    """
    leaves, tree = jax.tree.flatten(arrays)
    found = [None] * len(leaves)
    for shape in {leaf.shape: None for leaf in leaves}:
        same = [i for i, leaf in enumerate(leaves) if leaf.shape == shape]
        stacked = jnp.stack([leaves[i].astype(jnp.float32).reshape(-1) for i in same])
        for i, total in zip(same, jnp.sum(stacked, axis=1), strict=True):
            found[i] = total
    return jax.tree.unflatten(tree, found)


def totals(metrics: Mapping[str, jax.Array]) -> Totals:
    """Metrics f32[2] as one array [K, 2]."""
    names = tuple(sorted(metrics))
    values = [jnp.asarray(metrics[name], jnp.float32) for name in names]
    return Totals(jnp.stack(values) if values else jnp.zeros((0, 2)), names)


def summed(steps: Totals, axes: tuple[int, ...]) -> dict[str, jax.Array]:
    """{name: f32[2]}, summed over the leading axes, one per loop."""
    return steps.replace(values=jnp.sum(steps.values, axis=axes)).by_name()
