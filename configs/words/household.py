"""Household-v1 in words by a transformer from scratch: SFT, then GiGPO, GRPO or PPO.

Feng et al. (2025), Group-in-Group Policy Optimization, https://arxiv.org/abs/2505.10978, trained
models of 1.5B and 7B parameters on ALFWorld; this is the same game with fewer things in it.

    python -m launchers.train --config=configs/words/household.py:gigpo --workdir=runs/household

Two CPU cores. Expected success, mean of five seeds: 0.52 after SFT; 120 updates later
GRPO 0.64, GiGPO 0.66. Commands and intervals: README.md.
"""

import ml_collections

from agentrl import rollout
from agentrl.config import env_section, section
from configs._shared import language

VARIANTS = ("gigpo", "grpo", "ppo", "sft")


def get_config(variant: str = "gigpo") -> ml_collections.ConfigDict:
    config = language.config_of(
        variant,
        env_section("Household-v1", expert_sees_all=False),
        # The compact wording marks visited places, so a turn needs no earlier ones.
        section(rollout.episodes, num_groups=16, group_size=8),
        section(rollout.contexts.window, history=0),
        warm_updates=400,
        updates=120,
    )
    # Rows are single turns.
    config.learner.update(microbatch=64, lengths=1)
    return config
