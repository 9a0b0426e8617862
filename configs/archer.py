"""Coin with critics of replies from a replay (ArCHer), or PPO with its critic of turns.

Zhou et al. (2024), ArCHer, https://arxiv.org/abs/2402.19446; code 7c771a7 (read).

    python -m launchers.train --config=configs/archer.py:archer --workdir=runs/archer
"""

import ml_collections

from agentrl import advantages, losses, policies
from agentrl.config import section, term
from agentrl.methods.archer import archer
from configs import coin

METHODS = ("archer", "ppo")


def get_config(method: str = "archer") -> ml_collections.ConfigDict:
    if method not in METHODS:
        raise ValueError(f"configs/archer.py:{method}: expected one of {', '.join(METHODS)}")
    config = coin.get_config("ppo")
    config.updates = 150
    if method == "archer":
        config.policy = section(policies.mlp, hidden=(64, 64), critic="none")
        config.components.archer = section(archer)
        config.advantage = section(advantages.twin_critics)
        config.objective.policy = term(losses.reinforce)
        config.objective.value.weight = 0.0
        # Plain REINFORCE is for the policy's own samples: one step on each batch.
        config.learner.update(epochs=1, minibatches=1)
    return config
