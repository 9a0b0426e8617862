"""Self-play: exact exploitability of tabular games, meta-solvers, populations, ratings.

A tabular game is a `SequenceForm`; read `sequence_form.py` first, then `meta.py`.
"""

from typing import TYPE_CHECKING

from agentrl.lazy import lazy

if TYPE_CHECKING:
    from agentrl.selfplay.tabular import best_response as best_response
    from agentrl.selfplay.tabular import expected_returns as expected_returns
    from agentrl.selfplay.tabular import exploitability as exploitability
    from agentrl.selfplay.tabular import infostates as infostates
    from agentrl.selfplay.tabular import nash_conv as nash_conv

__getattr__, __dir__ = lazy(__name__)
