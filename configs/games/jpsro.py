"""JPSRO: populations that approach a correlated equilibrium, in general-sum or n-player games.

Marris et al. (2021), Multi-agent training beyond zero-sum with correlated equilibrium
meta-solvers, https://arxiv.org/abs/2106.09435. The default is coarse correlated; for correlated:
`--config.method.equilibrium=ce --config.method.solver=mgce`. Other meta-solvers: uniform, prd.

    python -m launchers.solve --config=configs/games/jpsro.py:kuhn3 --out=jpsro.json

One CPU core. Expected: the gap of three-player Kuhn closes in 15 rounds; Trade Comm reaches a
value of 0.987 in 15.
"""

import ml_collections

from agentrl.config import check_variant, section
from agentrl.selfplay import psro

VARIANTS = {
    "kuhn": ({"name": "KuhnPoker-v1"}, 10),
    "kuhn3": ({"name": "KuhnPoker-v1", "players": 3}, 25),
    "trade_comm": ({"name": "TradeComm-v1", "num_items": 2}, 15),
}


def get_config(variant: str = "kuhn") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    options, iterations = VARIANTS[variant]
    return ml_collections.ConfigDict(
        {"game": options, "iterations": iterations, "method": section(psro.jpsro)}
    )
