"""Coin-v1 in words: episodes that branch where the policy is uncertain (ARPO), or GRPO.

Dong et al. (2025), https://arxiv.org/abs/2507.19849. "soft", "hard": see `methods.branching`.

    python -m launchers.train --config=configs/branching.py:soft --workdir=runs/branching
"""

import ml_collections

from agentrl import advantages, rollout
from agentrl.config import env_section, section
from agentrl.methods.branching import branching
from configs import language

METHODS = ("soft", "hard", "grpo")


def get_config(method: str = "soft") -> ml_collections.ConfigDict:
    if method not in METHODS:
        raise ValueError(f"configs/branching.py:{method}: expected one of {', '.join(METHODS)}")
    sizes = {"num_groups": 8, "group_size": 8}
    branches = section(branching, **sizes, initial=4)
    config = language.config_of(
        "branching.py",
        "grpo",
        env_section("Coin-v1"),
        section(rollout.episodes, **sizes) if method == "grpo" else branches,
        section(rollout.contexts.whole),
        warm_updates=60,
        updates=120,
    )
    config.num_seeds = 2
    config.evaluation.every = 20
    if method == "hard":
        config.reweighting.shared_prefix = section(advantages.shared_prefix)
    return config
