"""Devices: the mesh of a run, and shardings of the training state."""

import contextlib
import math
from typing import TYPE_CHECKING, Any

import chex
import jax
import ml_collections
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from agentrl.checks import check_range
from agentrl.devices.placement import AXES, BATCH, parameter_spec
from agentrl.devices.targets import Target
from agentrl.learner.components import guard as guards
from agentrl.learner.state import TrainState

if TYPE_CHECKING:
    from agentrl.config.build import Experiment
    from agentrl.policies.protocol import AnyPolicy


def make_mesh(
    config: ml_collections.ConfigDict, experiment: "Experiment", target: Target | None = None
) -> Mesh | None:
    """The mesh of config.mesh, with the axes of `agentrl.devices.placement`.

    config.mesh.data=0: all devices not used by fsdp and tensor. None for a single device of this
    machine. target: the machine that has the devices; default: this one.

    Raises:
      ValueError: there are fewer devices, they do not divide batch or heads, or they do not support
        the policy's attention.
    """
    devices = jax.devices() if target is None else target.devices
    available = len(devices)
    sizes = {name: config.mesh[name] for name in AXES}
    for name in AXES:
        check_range(f"config.mesh.{name}", sizes[name], int(name != "data"))
    inner = sizes["fsdp"] * sizes["tensor"]
    sizes["data"] = sizes["data"] or max(1, available // inner)
    count = math.prod(sizes.values())
    given = ", ".join(f"config.mesh.{name}={size}" for name, size in sizes.items() if size > 1)
    if count > available:
        more = f"simulate more on CPU with XLA_FLAGS=--xla_force_host_platform_device_count={count}"
        if target is not None:
            more = f"name a target of more than {target.name}"
        raise ValueError(
            f"{given}: {count} devices, but there are {available}; lower it, or {more}"
        )
    asks = any(part.asks for part in (experiment.rollout, *experiment.components.values()))
    parts, microbatch = sizes["data"] * sizes["fsdp"], config.learner.get("microbatch")
    (units, name), platform = experiment.rollout.units, devices[0].platform
    if asks and (count > 1 or config.num_seeds > 1):
        raise ValueError(
            f"{count} device(s) and config.num_seeds={config.num_seeds} with a player outside this "
            "process, which is asked in the order of the steps, by one seed on one device: set "
            "config.num_seeds=1 and config.mesh.data=1"
        )
    if jax.process_count() > 1 and count != available:
        raise ValueError(
            f"{given or 'config.mesh'}: {count} devices, but {jax.process_count()} processes have "
            f"{available}; with several processes all of them take part"
        )
    if units % parts:
        raise ValueError(
            f"{name}={units} does not divide over {parts} devices; choose a multiple, or set "
            "config.mesh.data"
        )
    if isinstance(microbatch, int) and microbatch % parts:
        raise ValueError(
            f"config.learner.microbatch={microbatch} does not divide over {parts} devices; choose "
            "a multiple, or set config.mesh.data"
        )
    if experiment.policy.attention == "cudnn" and platform != "gpu":
        raise ValueError(
            "config.policy.attention='cudnn' is for NVIDIA's GPUs, and these devices are "
            f"{platform.upper()}s; use 'blocks'"
        )
    _check_tensor(sizes["tensor"], experiment.policy)
    if count == 1 and target is None:
        return None
    # Auto: programs define the computation, constraints the placement, the compiler the rest.
    return jax.make_mesh(
        tuple(sizes[name] for name in AXES),
        AXES,
        axis_types=(AxisType.Auto,) * len(AXES),
        devices=devices[:count],
    )


def _check_tensor(size: int, policy: "AnyPolicy") -> None:
    if size == 1:
        return
    if not policy.heads:
        raise ValueError(
            f"config.mesh.tensor={size} : tensor parallelism needs a decoder policy; "
            "set config.mesh.tensor=1"
        )
    for name, heads in policy.heads.items():
        if heads % size:
            raise ValueError(
                f"config.mesh.tensor={size} does not divide the decoder's {name}={heads}; choose a "
                "divisor, and config.mesh.fsdp for the rest"
            )


def use(mesh: Mesh | None) -> contextlib.AbstractContextManager:
    """Context in which `agentrl.devices.placement` uses the mesh."""
    return contextlib.nullcontext() if mesh is None else jax.set_mesh(mesh)


def everywhere(mesh: Mesh) -> NamedSharding:
    """The sharding of an array of which every device of the mesh has a copy."""
    return NamedSharding(mesh, PartitionSpec())


def parameter_shardings(mesh: Mesh | None, tree: chex.ArrayTree) -> Any:
    """Shardings of parameters, or of trees with the same leaves. None without a mesh.

    tree: arrays or shapes. The names of a leaf are the keys of the dicts around it: Adam's moments
    and a pool's members are sharded like their parameters.
    """
    if mesh is None:
        return None
    sizes = dict(mesh.shape)

    def place(path, leaf):
        names = [entry.key for entry in path if isinstance(entry, jax.tree_util.DictKey)]
        return NamedSharding(mesh, parameter_spec(names, leaf.shape, sizes))

    return jax.tree_util.tree_map_with_path(place, tree)


def state_shardings(mesh: Mesh | None, state: TrainState) -> Any:
    """Shardings of a `TrainState` (arrays or shapes) with a leading axis of seeds.

    Episodes are sharded over `data` and `fsdp`, parameters and trees with the same leaves as in
    `parameter_shardings`; the rest is replicated. None without a mesh.
    """
    if mesh is None:
        return None
    by_episode = NamedSharding(mesh, PartitionSpec(None, BATCH))
    placed = parameter_shardings(mesh, state)
    rollout = jax.tree.map(lambda _: by_episode, state.rollout)
    guard = guards.placed(state.carry, everywhere(mesh), rollout)
    return placed.replace(rollout=rollout, carry=placed.carry | guard)
