"""Shop-v1 in words by a transformer from scratch: warm start, then GiGPO, GRPO, RLOO or PPO.

The pages do not show which options were chosen, so the policy reads the whole episode.
Feng et al. (2025), Group-in-Group Policy Optimization, https://arxiv.org/abs/2505.10978, vary the
weight w of the step-level term on WebShop (figure 5): --config.advantage.step_weight.

    python -m launchers.train --config=configs/shop.py:gigpo --workdir=runs/shop
"""

import ml_collections

from agentrl import rollout
from agentrl.training.config import env_section, section
from configs import language


def get_config(method: str = "gigpo") -> ml_collections.ConfigDict:
    return language.config_of(
        "shop.py",
        method,
        env_section("Shop-v1"),
        section(rollout.episodes, num_groups=16, group_size=8),
        section(rollout.contexts.whole),
        warm_updates=200,
        updates=120,
    )
