"""Sokoban-v1 with GRPO, RLOO, GiGPO or PPO: dense rewards, irreversible errors, exact anchors.

Feng et al. (2025), Group-in-Group Policy Optimization, https://arxiv.org/abs/2505.10978.

    python -m launchers.train --config=configs/credit/sokoban.py:gigpo --workdir=runs/sokoban_gigpo

Two CPU cores, 25 to 75 s for ten seeds. Expected success: GiGPO 0.78, PPO 0.78, GRPO 0.72, RLOO
0.66; intervals in README.md.
"""

import ml_collections

from agentrl import policies, rollout
from agentrl.config import base_config, env_section, section
from configs._shared import methods

# Entropy coefficient of each method: the best of the same three for all, by the mean success over
# the run, on 2 seeds that are not among those of the results:
#   p=configs/credit/sokoban.py; python -m launchers.sweep --workdir=runs/sokoban_sweep \
#       --configs=$p:gigpo,$p:grpo,$p:rloo,$p:ppo --grid="num_seeds=2;updates=200;\
#       objective.entropy.weight=0.01,0.03,0.1"
TUNED = {"gigpo": 0.1, "grpo": 0.03, "rloo": 0.01, "ppo": 0.1}

VARIANTS = methods.METHODS


def get_config(variant: str = "gigpo") -> ml_collections.ConfigDict:
    config = base_config()
    config.num_seeds = 5
    config.updates = 200
    config.log_every = 10
    config.checkpoint.every = 100
    config.env = env_section("Sokoban-v1")
    critic = "separate" if variant == "ppo" else "none"
    config.policy = section(policies.mlp, hidden=(128, 128), critic=critic)
    config.rollout = section(rollout.episodes, num_groups=32, group_size=8)
    methods.use(config, variant, normalize="mean")
    config.learner.epochs = 2
    config.learner.minibatches = 4
    config.learner.normalize_advantage = "batch"
    config.objective.entropy.weight = TUNED[variant]
    config.optimizer.learning_rate = 3e-3
    return config
