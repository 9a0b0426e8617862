"""Provenance of a run: command, start, code, versions, devices."""

import hashlib
import importlib.metadata
import os
import platform
import subprocess
import time
from pathlib import Path
from typing import Any

import chex
import jax
import numpy as np

from agentrl.run.files import RunError, read_json

PACKAGES = (
    "agentrl",
    "jax",
    "jaxlib",
    "flax",
    "optax",
    "orbax-checkpoint",
    "gymnax",
    "jaxmarl",
    "numpy",
)


def _git(*arguments: str) -> str | None:
    here = Path(__file__).parent
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=here, capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cores() -> int:
    """Processor cores that this process may use: on them depends in which order XLA adds up."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def checksum(params: chex.ArrayTree) -> str | None:
    """SHA-256 of parameters, its first 16 digits: equal for equal names, types, shapes and bits.

    None if a part of them is on another host.
    """
    found = hashlib.sha256()
    for path, x in jax.tree_util.tree_leaves_with_path(params):
        if not getattr(x, "is_fully_addressable", True):
            return None
        x = np.asarray(x)
        found.update(f"{jax.tree_util.keystr(path)} {x.dtype} {x.shape} ".encode())
        found.update(x.tobytes())
    return f"sha256:{found.hexdigest()[:16]}"


def start_of(workdir: Path, params: chex.ArrayTree | None) -> str | None:
    """`checksum` of the parameters that a run begins from, or was begun from if it goes on (None).

    None if it began from random ones.
    """
    if params is not None:
        return checksum(params)
    try:
        return read_json(workdir / "provenance.json").get("start")
    except RunError:
        return None


def provenance(command: str) -> dict[str, Any]:
    """Data that identify the origin of results. `git` is None outside a checkout."""
    commit = _git("rev-parse", "HEAD")
    git = (
        None if commit is None else {"commit": commit, "dirty": bool(_git("status", "--porcelain"))}
    )
    return {
        "command": command,
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "git": git,
        "packages": {package: _version(package) for package in PACKAGES},
        "python": platform.python_version(),
        "platform": platform.platform(),
        "hostname": platform.node(),
        "cores": _cores(),
        "devices": [f"{device.device_kind} ({device.platform})" for device in jax.devices()],
    }
