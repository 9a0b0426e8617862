"""Coin-v1 in words by a transformer from scratch: SFT, then GiGPO, GRPO or PPO.

Feng et al. (2025), Group-in-Group Policy Optimization, https://arxiv.org/abs/2505.10978. "scaling":
GRPO whose episodes may take 5, 8 and then 12 turns (ScalingInter-RL, 2509.08755).

    python -m launchers.train --config=configs/words/coin_talk.py:gigpo --workdir=runs/coin_talk

Two CPU cores. Expected success, mean of five seeds: 0.11 after SFT; 200 updates later GRPO 0.86,
GiGPO 0.95, scaling 0.73. Commands and intervals: README.md.
"""

import ml_collections

from agentrl import rollout
from agentrl.config import check_variant, env_section, section
from configs._shared import language

VARIANTS = ("gigpo", "grpo", "ppo", "sft", "scaling")


def get_config(variant: str = "gigpo") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = language.config_of(
        "grpo" if variant == "scaling" else variant,
        env_section("Coin-v1"),
        section(rollout.episodes, num_groups=16, group_size=8),
        section(rollout.contexts.whole),
        # The expert knows the map and never turns back: more demonstrations do not help.
        warm_updates=80,
        updates=200,
    )
    if variant == "scaling":
        config.rollout.horizons, config.rollout.horizon_every = (5, 8, 12), 50
    return config
