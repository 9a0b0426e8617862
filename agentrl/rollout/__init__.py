"""Acting: the loop in the graph, the one outside it, and what they collect.

`episodes` and `segments` make a `Rollout`, the type that crosses the border: (Streams, Rows,
metrics) of any policy in any environment. Read `unroll.py` first, then `episodes.py`.
"""

import importlib
from typing import Any

from agentrl.rollout.episodes import episodes as episodes
from agentrl.rollout.processes import processes as processes
from agentrl.rollout.segments import segments as segments
from agentrl.rollout.several import several as several
from agentrl.rollout.types import Rollout as Rollout
from agentrl.rollout.unroll import unroll as unroll


def __getattr__(name: str) -> Any:
    # Contexts of language policies: a run over arrays does not import the decoder.
    if name == "contexts":
        return importlib.import_module("agentrl.actors.contexts")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
