"""Tables for the terminal, and the line that names the machine."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import jax


def machine() -> dict[str, Any]:
    """Device, cores that this process may use, and processor."""
    device = jax.devices()[0]
    affinity = getattr(os, "sched_getaffinity", None)  # on Linux only
    return {
        "device": f"{device.device_kind} ({device.platform})",
        "device_count": jax.device_count(),
        "cores": len(affinity(0)) if affinity else os.cpu_count() or 1,
        "processor": _processor(),
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        return "unknown"


def headline(provenance: Mapping[str, Any]) -> str:
    """One line: device, cores, versions."""
    here = machine()
    versions = ", ".join(
        f"{name} {version}" for name, version in provenance["packages"].items() if version
    )
    return f"{here['device']}, {here['cores']} cores, {here['processor']}; {versions}"


def table(title: str, columns: Sequence[tuple[str, str]], rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows under a title. columns: (key of the row, format of its value); absent values stay empty.

    The first column is left-aligned, the others right-aligned.
    """
    cells = [[key for key, _ in columns]]
    for row in rows:
        values = [(row.get(key), form) for key, form in columns]
        cells.append(["" if value is None else format(value, form) for value, form in values])
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    lines = [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]
    return "\n".join([title, *lines])


def spread(low: float, high: float, form: str = ",.0f") -> str:
    """The lowest and the highest value, "1,000-2,000"."""
    return f"{low:{form}}-{high:{form}}"
