"""Time to load a published model, and peak host memory meanwhile.

Each load is a process of its own, since a process does not return all memory that it has used.
Files are written just before, so that they are read from the page cache, not from the disk.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import launchers
from agentrl.policies.decoder_config import DecoderConfig

_MIB = 2**20
_MEMORY = ("VmHWM", "VmRSS", "RssFile")


class Case(NamedTuple):
    """Files of a model, their dtype, and the number of devices (of `fsdp`) that it is loaded
    onto."""

    files: int
    dtype: str
    devices: int


CASES = tuple(
    Case(files, dtype, devices)
    for files, dtype in ((1, "float32"), (8, "float32"), (8, "bfloat16"))
    for devices in (1, 8)
)


def _memory() -> dict[str, float]:
    """MiB of this process: peak, current, and current in pages of files."""
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    found = dict(line.split(":", 1) for line in lines)
    return {name: int(found[name].split()[0]) / 1024 for name in _MEMORY}


def measure(directory: str, devices: int) -> dict[str, float]:
    """Loads a model as float32 in this process."""
    import jax

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", devices)
    from jax.sharding import AxisType

    from agentrl.devices import placement
    from agentrl.policies import huggingface

    mesh = None
    if devices > 1:
        axes = placement.AXES
        mesh = jax.make_mesh((1, devices, 1), axes, axis_types=(AxisType.Auto,) * len(axes))
    jax.block_until_ready(jax.numpy.zeros(1))
    before = _memory()
    # From here on the peak is this load's.
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    start = time.perf_counter()
    _, params = huggingface.load(directory, sharding=placement.parameter_sharding(mesh))
    jax.block_until_ready(params)
    seconds = time.perf_counter() - start
    after = _memory()
    arrays = sum(x.nbytes for x in jax.tree.leaves(params)) / _MIB
    return {
        "seconds": seconds,
        "arrays_mib": arrays,
        "largest_mib": max(x.nbytes for x in jax.tree.leaves(params)) / _MIB,
        "above_mib": after["VmHWM"] - before["VmRSS"] - arrays,
        "left_mib": after["VmRSS"] - before["VmRSS"] - arrays,
        "mapped_mib": after["RssFile"] - before["RssFile"],
    }


def run(config: DecoderConfig, cases: Sequence[Case] = CASES) -> list[dict[str, Any]]:
    """One row per case: MiB of the files, of the arrays, of the largest array, and the peak.

    The peak above the arrays (`above_mib`) is available on Linux only.
    """
    if not sys.platform.startswith("linux"):
        return []
    import jax

    from agentrl.policies import decoder, huggingface

    params = jax.jit(lambda key: decoder.init(key, config))(jax.random.key(0))
    rows = []
    for case in cases:
        with tempfile.TemporaryDirectory() as parent:
            directory = pathlib.Path(parent) / "model"
            total = sum(x.size for x in jax.tree.leaves(params))
            size = total * jax.numpy.dtype(case.dtype).itemsize
            shard = 2 * size if case.files == 1 else size // case.files
            huggingface.save(directory, config, params, dtype=case.dtype, shard_bytes=shard)
            files = list(directory.glob("*.safetensors"))
            found = _in_a_process(directory, case.devices)
            held = sum(path.stat().st_size for path in files) / _MIB
        name = f"{len(files)} file(s), {case.dtype}, {case.devices} device(s)"
        rows.append({"task": "load", "name": name, "files_mib": held, **found})
    return rows


def _in_a_process(directory: pathlib.Path, devices: int) -> dict[str, float]:
    root = pathlib.Path(launchers.__file__).parents[1]
    command = [sys.executable, "-m", __name__, str(directory), str(devices)]
    # Other platforms and device counts set by the user are not part of the measurement.
    environment = {name: text for name, text in os.environ.items() if name != "XLA_FLAGS"}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
