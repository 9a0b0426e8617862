"""Slices of TPUs: how many machines a slice has, and how many chips each of them.

From the tables of "Plan TPUs in GKE" (cloud.google.com/kubernetes-engine/docs/concepts/plan-tpus).
"""

import math
from typing import NamedTuple

# Label of a kind's nodes in GKE (cloud.google.com/gke-tpu-accelerator).
_LABELS = {
    "v4": "tpu-v4-podslice",
    "v5e": "tpu-v5-lite-podslice",
    "v5p": "tpu-v5p-slice",
    "v6e": "tpu-v6e-slice",
}
_FLAT = ("1x1", "2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16")
_CUBOIDS = ("2x2x1", "2x2x2", "2x2x4", "2x4x4")


class Slice(NamedTuple):
    """kind: "v5e"; topology: "4x4"; label: of its nodes in GKE; chips: of each of its hosts."""

    kind: str
    topology: str
    label: str
    hosts: int
    chips: int


def find(device: str) -> Slice:
    """The slice of a device ("v5e:4x4"). ValueError if the kind has no such slice.

    Hosts have four chips. v5e:2x4 and v6e:2x4 also exist as two such hosts; here they are one host
    of eight (ct5lp-hightpu-8t, ct6e-standard-8t), which one process has to itself.
    """
    kind, _, topology = device.partition(":")
    sizes = [int(size) for size in topology.split("x")]
    chips = math.prod(sizes)
    if kind in ("v5e", "v6e"):
        known, expected = topology in _FLAT, f"one of {', '.join(_FLAT)}"
        hosts = 1 if chips <= 8 else chips // 4
    else:
        known = topology in _CUBOIDS or (len(sizes) == 3 and all(size % 4 == 0 for size in sizes))
        expected = f"one of {', '.join(_CUBOIDS)}, or three multiples of 4 (4x4x8)"
        hosts = chips // 4
    if not known or not chips:
        raise ValueError(f"device={device!r}: expected {expected} after {kind}:")
    return Slice(kind, topology, _LABELS[kind], hosts, chips // hosts)
