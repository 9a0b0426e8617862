"""Machines that are not here: devices that programs can be compiled for, and not run on.

XLA compiles for a GPU from its description alone, and for TPU with libtpu. What comes out is the
program that such a machine would compile, but for what the compiler there measures by trying
(which of several kernels of a matrix product is fastest).
"""

import importlib.util
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
from jax.experimental import topologies


class Target(NamedTuple):
    """Devices of a machine; memory: bytes of one of them."""

    name: str
    devices: list[Any]
    memory: int


class GPU(NamedTuple):
    """What XLA asks of a GPU: bytes, bytes a second, gigahertz.

    From the descriptions that come with XLA (xla/backends/gpu/target_config/specs).
    """

    kind: str
    capability: int
    cores: int
    fpus: int
    shared: int
    shared_by_request: int
    cache: int
    clock: float
    bandwidth: int
    memory: int


GPUS: Mapping[str, GPU] = {
    "a100": GPU("NVIDIA A100-SXM4-80GB", 8, 108, 64, 167936, 166912, 41943040, 1.41,
                2039040000000, 85100068864),
    "h100": GPU("NVIDIA H100 80GB HBM3", 9, 132, 128, 233472, 232448, 52428800, 1.98,
                3352320000000, 84942979072),
    "h200": GPU("NVIDIA H200 141GB HBM3e", 9, 132, 128, 233472, 232448, 52428800, 1.98,
                4800000000000, 151397597184),
}  # fmt: skip

# GiB of a chip, from Google's documentation of each generation.
TPUS: Mapping[str, int] = {"v4": 32, "v5e": 16, "v5p": 95, "v6e": 32}

EXPECTED = (
    f"expected one of {', '.join(GPUS)}, with :N for N of them (h100:8), or a slice of "
    f"{', '.join(TPUS)} (v5e:2x4)"
)


def _description(gpu: GPU) -> str:
    """XLA's text format of a `GpuTargetConfigProto`."""
    return f"""
gpu_device_info {{
  threads_per_block_limit: 1024
  threads_per_warp: 32
  shared_memory_per_block: 49152
  shared_memory_per_core: {gpu.shared}
  shared_memory_per_block_optin: {gpu.shared_by_request}
  threads_per_core_limit: 2048
  core_count: {gpu.cores}
  fpus_per_core: {gpu.fpus}
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
  memory_bandwidth: {gpu.bandwidth}
  device_memory_size: {gpu.memory}
  l2_cache_size: {gpu.cache}
  clock_rate_ghz: {gpu.clock}
  cuda_compute_capability {{ major: {gpu.capability} }}
}}
runtime_version {{ major: 12 minor: 8 }}
dnn_version_info {{ major: 9 minor: 10 }}
platform_name: "CUDA"
device_description_str: "{gpu.kind}"
"""


def find(name: str) -> Target:
    """The devices of a machine by name: "h100", "h100:8", "v5e:2x4".

    Raises:
      ValueError: an unknown name, or a compiler that is not installed.
    """
    kind, _, size = name.partition(":")
    if kind in GPUS and re.fullmatch(r"[1-9]\d*|", size):
        return _gpus(name, GPUS[kind], int(size or 1))
    if kind in TPUS and re.fullmatch(r"\d+(x\d+)+", size):
        return _slice(name, TPUS[kind] * 2**30)
    raise ValueError(f"target {name!r}: {EXPECTED}")


def _gpus(name: str, gpu: GPU, count: int) -> Target:
    # Hosts of eight.
    hosts, each = (1, count) if count <= 8 else (count // 8, 8)
    if hosts * each != count:
        raise ValueError(f"target {name!r}: more than 8 come in eights")
    try:
        devices = topologies.get_topology_desc(
            gpu.kind, "cuda", target_config=_description(gpu), topology=f"1x{hosts}x{each}"
        ).devices
    except NotImplementedError:
        raise ValueError(
            f"target {name!r}: XLA's compiler for CUDA is not installed (no GPU is needed for it): "
            f"pip install 'jax[cuda12]=={jax.__version__}'"
        ) from None
    return Target(name, devices, gpu.memory)


def _slice(name: str, memory: int) -> Target:
    if importlib.util.find_spec("libtpu") is None:
        raise ValueError(
            f"target {name!r}: XLA's compiler for TPU is not installed (no TPU is needed for it): "
            f"pip install 'jax[tpu]=={jax.__version__}'"
        )
    # Its chips have two cores, which programs see as one.
    options = {"chip_config_name": "megacore"} if name.startswith("v4") else {}
    try:
        devices = topologies.get_topology_desc(name, "tpu", **options).devices
    except jax.errors.JaxRuntimeError as error:
        raise ValueError(f"target {name!r}: {error}") from None
    return Target(name, devices, memory)
