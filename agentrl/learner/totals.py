"""Metrics in the loops of an update: one array instead of dozens, for smaller programs.

A metric of its own in a loop costs a buffer, a write in each step, a sum and a select. The metrics
of configs/start/cartpole_ppo.py were 17 % of its compiled instructions; as one array they are 12 %.
"""

from collections.abc import Iterator, Mapping

import chex
import jax
import jax.numpy as jnp
from flax import struct


class Totals(struct.PyTreeNode, Mapping[str, jax.Array]):
    """Metrics by name, f32[..., 2]: (sum over what was counted, weight or count).

    A mapping that is one array of the program, f32[..., K, 2], in the order of the names.
    """

    array: jax.Array
    names: tuple[str, ...] = struct.field(pytree_node=False)

    def __getitem__(self, name: str) -> jax.Array:
        if name not in self.names:
            raise KeyError(name)
        return self.array[..., self.names.index(name), :]

    def __contains__(self, name: object) -> bool:
        return name in self.names  # of shapes, too, which have no entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def summed(self, axes: tuple[int, ...]) -> "Totals":
        """The sums over leading axes, one per loop."""
        return self.replace(array=jnp.sum(self.array, axis=axes))


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
    """Metrics f32[..., 2], all of one shape, as one array."""
    names = tuple(sorted(metrics))
    values = [jnp.asarray(metrics[name], jnp.float32) for name in names]
    return Totals(jnp.stack(values, axis=-2) if values else jnp.zeros((0, 2)), names)
