"""Provenance of a run: command, code, versions, devices."""

import importlib.metadata
import platform
import subprocess
import time
from pathlib import Path
from typing import Any

import jax

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
        "devices": [f"{device.device_kind} ({device.platform})" for device in jax.devices()],
    }
