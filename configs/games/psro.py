"""PSRO on poker: exact best responses to the Nash equilibrium of both populations.

Lanctot et al. (2017), A unified game-theoretic approach to multiagent reinforcement learning,
https://arxiv.org/abs/1711.00832. `--config.method.solver=uniform` is fictitious play, "latest"
is self-play.

    python -m launchers.solve --config=configs/games/psro.py:kuhn --out=psro.json

One CPU core. Expected: Kuhn's equilibrium in 6 rounds (value -0.0556, gap 0); on Leduc a gap of
0.20 after 100.
"""

import ml_collections

from agentrl.config import check_variant, section
from agentrl.selfplay import psro

VARIANTS = {"kuhn": ("KuhnPoker-v1", 10), "leduc": ("LeducPoker-v1", 100)}


def get_config(variant: str = "kuhn") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    name, iterations = VARIANTS[variant]
    return ml_collections.ConfigDict(
        {"game": {"name": name}, "iterations": iterations, "method": section(psro.psro)}
    )
