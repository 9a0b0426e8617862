"""Memory of a run's programs: known before they run, and the largest microbatch that fits."""

import contextlib
import math
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import chex
import jax

from agentrl.run.files import RunError

# What the interpreter, the compiler and the buffers between programs take beside them.
SHARE = 0.92
REMEDY = (
    'set config.learner.microbatch lower or to "auto", config.policy.remat=True, fewer groups or '
    "shorter replies, or config.mesh.fsdp over more devices"
)
EVALUATION_REMEDY = (
    "set config.evaluation.at_once to a divisor of config.evaluation.episodes, or config.mesh.fsdp "
    "over more devices"
)


class Need(NamedTuple):
    """Memory of a compiled program per device, in bytes, by the compiler's own analysis.

    state: its arguments. results: outputs that take none of the arguments' buffers. between:
    activations, gradients and other arrays within the program.
    """

    state: int
    results: int
    between: int

    @property
    def total(self) -> int:
        """Bytes per device while the program runs: all three together."""
        return sum(self)

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {size / 2**30:.1f}" for name, size in self._asdict().items())
        return f"{self.total / 2**30:.1f} GiB ({parts})"


def need(compiled: jax.stages.Compiled) -> Need:
    """The memory of a compiled program."""
    found = compiled.memory_analysis()
    assert found is not None  # as on CPUs and GPUs
    return Need(
        found.argument_size_in_bytes,
        found.output_size_in_bytes - found.alias_size_in_bytes,
        found.temp_size_in_bytes,
    )


def size(shapes: chex.ArrayTree) -> int:
    """Bytes per device of arrays, from their shapes and shardings."""
    return sum(
        math.prod(x.sharding.shard_shape(x.shape)) * x.dtype.itemsize
        for x in jax.tree.leaves(shapes)
    )


def limit() -> int | None:
    """Bytes that programs may take on a device; None where nothing tells."""
    stats = jax.local_devices()[0].memory_stats() or {}
    if "bytes_limit" in stats:
        return stats["bytes_limit"]
    machine, group = pathlib.Path("/proc/meminfo"), pathlib.Path("/sys/fs/cgroup/memory.max")
    sizes = []
    if machine.exists():
        sizes.append(int(machine.read_text().split("MemTotal:")[1].split()[0]) * 1024)
    if group.exists() and (text := group.read_text().strip()).isdigit():  # else "max": no limit
        sizes.append(int(text))
    # Simulated devices share the machine's memory.
    return int(min(sizes) * SHARE) // jax.local_device_count() if sizes else None


def check(name: str, needed: Need, allowed: int | None, remedy: str = REMEDY) -> None:
    """RunError, the line that ends a run, if the program of `name` does not fit."""
    if allowed is not None and needed.total > allowed:
        raise RunError(
            f"the program of {name} needs {needed} of memory per device, and "
            f"{allowed / 2**30:.1f} GiB are there; {remedy}"
        )


@contextlib.contextmanager
def told(needs: Mapping[str, Need]) -> Iterator[None]:
    """Raises RunError, with what the programs need, for an allocation that fails inside."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        first = str(error).strip().splitlines()[0]
        sizes = "; ".join(f"{name} {need}" for name, need in needs.items())
        raise RunError(f"{first}. Programs: {sizes or 'not compiled ahead'}; {REMEDY}") from None


def largest(rows: int, parts: int, needed: Callable[[int], Need], allowed: int) -> int:
    """The largest microbatch of at most `rows` rows that fits.

    Activations grow with the microbatch and the rest does not, so that a program that does not fit
    tells how much smaller the next trial has to be.

    Args:
      rows: of a minibatch; a microbatch divides them.
      parts: devices that share a microbatch; it is a multiple of them.
      needed: microbatch -> the largest need of the programs with it.
      allowed: bytes.

    Raises:
      RunError: none fits.
    """
    sizes = [size for size in range(rows, 0, -1) if rows % size == 0 and size % parts == 0]
    while True:
        size = sizes.pop(0)
        found = needed(size)
        if not sizes:
            check(f"config.learner.microbatch={size}", found, allowed)
        if found.total <= allowed:
            return size
        free = allowed - found.state - found.results
        guess = size * max(free, 0) / max(found.between, 1)
        sizes = [smaller for smaller in sizes if smaller <= guess] or sizes[-1:]
