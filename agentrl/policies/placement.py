"""Where arrays live on the mesh, if there is one (`jax.set_mesh`).

Programs mean the same with and without: the mesh only says where the numbers are. Its axes:

  data    copies of the parameters, each with its part of the batch.
  fsdp    parameters are split, and gathered where they are used; the batch is split here too (S.
          Rajbhandari et al. 2020, "ZeRO", https://arxiv.org/abs/1910.02054, stage 3).
  tensor  heads, the MLP's hidden units and the vocabulary are split, so that a layer needs two sums
          over the axis (M. Shoeybi et al. 2019, "Megatron-LM", https://arxiv.org/abs/1909.08053).

An axis that does not divide an array's dimension leaves that dimension whole.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import chex
import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

AXES = ("data", "fsdp", "tensor")
BATCH = ("data", "fsdp")

# Axes of a module's matrix. What goes into a block is split by what comes out (columns), and what
# leads back into the residual by what goes in (rows): between the two nothing is exchanged.
_COLUMNS, _ROWS = ("fsdp", "tensor"), ("tensor", "fsdp")
_MATRICES = {
    "embed_tokens": ("tensor", "fsdp"),  # [V, D]
    "lm_head": _COLUMNS,
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
    """The axis, or None where the mesh lacks it, or it does not divide `size`."""
    names = tuple(n for n in ((axis,) if isinstance(axis, str) else axis or ()) if n in sizes)
    parts = math.prod(sizes[n] for n in names)
    if parts == 1 or size % parts:
        return None
    return names if len(names) > 1 else names[0]


def parameter_spec(
    path: Sequence[str], shape: tuple[int, ...], sizes: Mapping[str, int]
) -> PartitionSpec:
    """Where a parameter lies, by the end of its name.

    path: ..., module, leaf: ("layers", "0", "mlp", "up_proj", "kernel"). shape: may have further
    axes in front (seeds, places of a pool), which stay whole. sizes: of the mesh's axes. Norms,
    value heads and all that is no decoder's lie everywhere.
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
    """(path "layers/0/mlp/up_proj/kernel", shape) -> sharding, as `huggingface.load` takes it."""
    if mesh is None:
        return None
    sizes = dict(mesh.shape)
    return lambda path, shape: NamedSharding(mesh, parameter_spec(path.split("/"), shape, sizes))


def _sizes() -> dict[str, int]:
    """Sizes of the current mesh's axes, without those that `shard_map` has made the program's."""
    mesh = jax.sharding.get_abstract_mesh()
    return {name: mesh.shape[name] for name in mesh.axis_names if name in mesh.auto_axes}


def devices() -> int:
    """How many devices the program is split over."""
    return math.prod(_sizes().values())


def platform() -> str:
    """Where the program that is being traced will run: "cpu", "gpu" or "tpu".

    That of the mesh, which may be another machine's (`agentrl.devices.targets`), or of this one.
    """
    mesh = jax.sharding.get_abstract_mesh()
    device = None if mesh.empty else mesh.abstract_device
    return jax.default_backend() if device is None else device.platform


def gathered(params: chex.ArrayTree) -> chex.ArrayTree:
    """Parameters whole over `fsdp`: for a loop, which would gather them again in each step."""
    sizes = _sizes()
    if sizes.pop("fsdp", 1) == 1:
        return params

    def whole(path, x):
        names = [entry.key for entry in path]
        return jax.lax.with_sharding_constraint(x, parameter_spec(names, x.shape, sizes))

    return jax.tree_util.tree_map_with_path(whole, params)


def place(x: jax.Array, *axes: Axis) -> jax.Array:
    """Constrains the first dimensions of x to these axes of the mesh, None for whole.

    The others are the compiler's choice.
    """
    sizes = _sizes()
    if math.prod(sizes.values()) == 1:
        return x
    spec = [_fitting(axis, size, sizes) for axis, size in zip(axes, x.shape, strict=False)]
    rest = [PartitionSpec.UNCONSTRAINED] * (x.ndim - len(spec))
    return jax.lax.with_sharding_constraint(x, PartitionSpec(*spec, *rest))


def along_data(tree: chex.ArrayTree, axis: int = 0) -> chex.ArrayTree:
    """Constrains `axis` of every leaf, the batch, to be split over `data` and `fsdp`."""
    return jax.tree.map(lambda x: place(x, *[None] * axis, BATCH), tree)
