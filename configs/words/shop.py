"""Shop-v1 in words by a transformer from scratch: SFT, then GiGPO or GRPO.

Feng et al. (2025), Group-in-Group Policy Optimization, https://arxiv.org/abs/2505.10978, vary the
weight of the step-level term on WebShop (figure 5): --config.advantage.step_weight. The pages do
not show the chosen options, so the policy reads the whole conversation.

    python -m launchers.train --config=configs/words/shop.py:gigpo --workdir=runs/shop

Two CPU cores. Expected success, mean of five seeds: 0.07 after SFT; 120 updates later 0.18 (GRPO)
and 0.17 (GiGPO), at any step weight from 0 to 1.4.
"""

import ml_collections

from agentrl import rollout
from agentrl.config import env_section, section
from configs._shared import language

VARIANTS = ("gigpo", "grpo", "sft")


def get_config(variant: str = "gigpo") -> ml_collections.ConfigDict:
    return language.config_of(
        variant,
        env_section("Shop-v1"),
        section(rollout.episodes, num_groups=16, group_size=8),
        section(rollout.contexts.whole),
        warm_updates=200,
        updates=120,
    )
