"""Self-play: exact exploitability of tabular games, meta-solvers, oracles over populations."""

from agentrl.selfplay.tabular import best_response as best_response
from agentrl.selfplay.tabular import expected_returns as expected_returns
from agentrl.selfplay.tabular import exploitability as exploitability
from agentrl.selfplay.tabular import infostates as infostates
from agentrl.selfplay.tabular import nash_conv as nash_conv
