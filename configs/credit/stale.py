"""Coin-v1 by PPO whose sampler is four updates behind: V-trace, weights of actions, or neither.

IMPALA, https://arxiv.org/abs/1802.01561, and Sample Factory, https://arxiv.org/abs/2006.11751. The
task and learner of coin.py:ppo, which is the sampler without a lag. "vtrace": its advantages and
targets; "importance": truncated weights of actions, and GAE; "none": GAE as if nothing lagged.

    python -m launchers.train --config=configs/credit/stale.py:vtrace --workdir=runs/stale_vtrace

Five seeds, half a minute: no lag 0.88, importance 0.78, vtrace 0.27, none 0.09 (README.md).
"""

import ml_collections

from agentrl import advantages
from agentrl.config import check_variant, section
from agentrl.learner.components.importance import importance
from agentrl.methods.turn_ratio import turn_ratio
from configs.credit import coin

VARIANTS = ("vtrace", "importance", "none")


def get_config(variant: str = "vtrace") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = coin.get_config("ppo")
    config.staleness = 4
    config.evaluation.update(every=config.updates, episodes=1024)
    if variant == "vtrace":
        config.advantage = section(advantages.vtrace, gamma=0.95, lam=0.95)
        config.components.turn_ratio = section(turn_ratio)
    if variant == "importance":
        config.components.importance = section(importance, cap=1.0)
        config.objective.policy.scale = "importance"
    return config
