"""Sharding of arrays over the mesh, if there is one (`jax.set_mesh`).

Programs compute the same with and without a mesh; it only determines the placement. Its axes:

  data    replicated parameters, sharded batch.
  fsdp    sharded parameters, gathered where they are used; the batch is sharded here too (S.
          Rajbhandari et al. 2020, "ZeRO", https://arxiv.org/abs/1910.02054, stage 3).
  tensor  sharded heads, hidden units of the MLP and vocabulary, so that a layer needs two sums
          over the axis (M. Shoeybi et al. 2019, "Megatron-LM", https://arxiv.org/abs/1909.08053).

A dimension that an axis does not divide is not sharded.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import chex
import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

AXES = ("data", "fsdp", "tensor")
BATCH = ("data", "fsdp")

# Axes of a module's matrix. Matrices into a block are sharded by their outputs (columns), and those
# back into the residual by their inputs (rows), so no communication is needed in between.
_COLUMNS, _ROWS = ("fsdp", "tensor"), ("tensor", "fsdp")
_MATRICES = {
    "embed_tokens": ("tensor", "fsdp"),  # [V, D]
    "lm_head": _COLUMNS,
    "output_heads": _COLUMNS,
    "q_proj": _COLUMNS,
    "k_proj": _COLUMNS,
    "v_proj": _COLUMNS,
    "gate_proj": _COLUMNS,
    "up_proj": _COLUMNS,
    "o_proj": _ROWS,
    "down_proj": _ROWS,
}

Axis = str | tuple[str, ...] | None


def _fitting(axis: Axis, size: int, sizes: Mapping[str, int]) -> Axis:
    """The axis, or None if the mesh lacks it, or it does not divide `size`."""
    names = tuple(n for n in ((axis,) if isinstance(axis, str) else axis or ()) if n in sizes)
    parts = math.prod(sizes[n] for n in names)
    if parts == 1 or size % parts:
        return None
    return names if len(names) > 1 else names[0]


def parameter_spec(
    path: Sequence[str], shape: tuple[int, ...], sizes: Mapping[str, int]
) -> PartitionSpec:
    """Partition spec of a parameter, by the end of its name.

    path: ..., module, leaf: ("layers", "mlp", "up_proj", "kernel"). shape: may have further
    leading axes (layers, seeds, places of a pool), which are not sharded. sizes: of the mesh's
    axes. Norms, value heads and all parameters outside the decoder are replicated.
    """
    module, leaf = ("", "", *path)[-2:]
    into, out = _MATRICES.get(module, (None, None))
    axes = {
        "kernel": (into, out),
        "weight": (into, out),
        "bias": (out,),
        # Adapters [in, r] and [r, out].
        "a": (into, None),
        "b": (None, out),
    }.get(leaf, ())
    if len(axes) > len(shape) or not any(axes):
        return PartitionSpec()
    front = len(shape) - len(axes)
    fitting = (_fitting(a, n, sizes) for a, n in zip(axes, shape[front:], strict=True))
    return PartitionSpec(*[None] * front, *fitting)


def parameter_sharding(mesh: Mesh | None) -> Callable[[str, tuple[int, ...]], NamedSharding] | None:
    """(path "layers/mlp/up_proj/kernel", shape) -> sharding, for `huggingface.load`."""
    if mesh is None:
        return None
    sizes = dict(mesh.shape)
    return lambda path, shape: NamedSharding(mesh, parameter_spec(path.split("/"), shape, sizes))


def _sizes() -> dict[str, int]:
    """Sizes of the current mesh's axes, without those that `shard_map` has made manual."""
    mesh = jax.sharding.get_abstract_mesh()
    return {name: mesh.shape[name] for name in mesh.axis_names if name in mesh.auto_axes}


def devices() -> int:
    """Number of devices that the program is sharded over."""
    return math.prod(_sizes().values())


def platform() -> str:
    """Platform of the program that is being traced: "cpu", "gpu" or "tpu".

    That of the mesh, which may be another machine's (`agentrl.devices.targets`), or of this one.
    """
    mesh = jax.sharding.get_abstract_mesh()
    device = None if mesh.empty else mesh.abstract_device
    return jax.default_backend() if device is None else device.platform


def gathered(params: chex.ArrayTree) -> chex.ArrayTree:
    """Parameters gathered over `fsdp`, for a loop that would gather them in each iteration."""
    sizes = _sizes()
    if sizes.pop("fsdp", 1) == 1:
        return params

    def whole(path, x):
        names = [entry.key for entry in path]
        return jax.lax.with_sharding_constraint(x, parameter_spec(names, x.shape, sizes))

    return jax.tree_util.tree_map_with_path(whole, params)


def place(x: jax.Array, *axes: Axis) -> jax.Array:
    """Constrains the first dimensions of x to these axes of the mesh; None for not sharded.

    The other dimensions are left to the compiler.
    """
    sizes = _sizes()
    if math.prod(sizes.values()) == 1:
        return x
    spec = [_fitting(axis, size, sizes) for axis, size in zip(axes, x.shape, strict=False)]
    rest = [PartitionSpec.UNCONSTRAINED] * (x.ndim - len(spec))
    return jax.lax.with_sharding_constraint(x, PartitionSpec(*spec, *rest))


def along_data(tree: chex.ArrayTree, axis: int = 0) -> chex.ArrayTree:
    """Constrains `axis` of every leaf, the batch, to be sharded over `data` and `fsdp`."""
    return jax.tree.map(lambda x: place(x, *[None] * axis, BATCH), tree)


def replicated(tree: chex.ArrayTree) -> chex.ArrayTree:
    """Constrains every leaf to be whole on each device."""
    if devices() == 1:
        return tree
    return jax.tree.map(lambda x: jax.lax.with_sharding_constraint(x, PartitionSpec()), tree)
