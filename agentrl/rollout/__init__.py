"""Acting: the loop in the graph, the one outside it, and what they collect.

`episodes` and `segments` make a `Rollout`, the type that crosses the border: (Streams, Rows,
metrics) of any policy in any environment. Read `unroll.py` first, then `episodes.py`.
"""

from typing import TYPE_CHECKING

from agentrl.lazy import lazy
from agentrl.rollout.episodes import episodes as episodes
from agentrl.rollout.host import processes as processes
from agentrl.rollout.segments import segments as segments
from agentrl.rollout.types import Rollout as Rollout
from agentrl.rollout.unroll import unroll as unroll

if TYPE_CHECKING:
    # Contexts are of language policies: a run over arrays does not import the decoder.
    from agentrl.actors import contexts as contexts
    from agentrl.rollout.mixture import several as several

__getattr__, __dir__ = lazy(__name__)
