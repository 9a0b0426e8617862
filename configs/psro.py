"""PSRO on poker: exact best responses to the Nash equilibrium of what both sides have so far.

Lanctot et al. (2017), A unified game-theoretic approach to multiagent reinforcement learning,
https://arxiv.org/abs/1711.00832. `--config.method.solver=uniform` is fictitious play, "latest"
self-play; see `agentrl.selfplay.psro` for what was read.

    python -m launchers.solve --config=configs/psro.py:kuhn --out=psro.json
"""

import ml_collections

from agentrl.config import section
from agentrl.selfplay import psro

GAMES = {"kuhn": ("KuhnPoker-v1", 10), "leduc": ("LeducPoker-v1", 100)}


def get_config(game: str = "kuhn") -> ml_collections.ConfigDict:
    if game not in GAMES:
        raise ValueError(f"configs/psro.py:{game}: expected one of {', '.join(GAMES)}")
    name, iterations = GAMES[game]
    return ml_collections.ConfigDict(
        {"game": {"name": name}, "iterations": iterations, "method": section(psro.psro)}
    )
