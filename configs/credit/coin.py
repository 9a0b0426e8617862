"""Coin-v1 with GRPO, RLOO, GiGPO or PPO: does credit within anchor groups help?

Feng et al. (2025), Group-in-Group Policy Optimization, https://arxiv.org/abs/2505.10978.

    python -m launchers.train --config=configs/credit/coin.py:gigpo --workdir=runs/coin_gigpo

Two CPU cores, 25 to 75 s for ten seeds. Expected success after training: GiGPO 0.67 (0.96 with
--config.rollout.anchor=state), GRPO 0.97, RLOO 0.97, PPO 0.98; more in README.md.
"""

import ml_collections

from agentrl import policies, rollout
from agentrl.config import base_config, env_section, section
from configs._shared import methods

# (learning rate, entropy coefficient) of each method: the best of the same six for all, by the mean
# success over the run, on 3 seeds that are not among those of the results:
#   p=configs/credit/coin.py; python -m launchers.sweep --workdir=runs/coin_sweep \
#       --configs=$p:gigpo,$p:grpo,$p:rloo,$p:ppo --grid="num_seeds=3;\
#       optimizer.learning_rate=3e-3,6e-3;objective.entropy.weight=0.01,0.03,0.06"
TUNED = {"gigpo": (6e-3, 0.03), "grpo": (6e-3, 0.01), "rloo": (3e-3, 0.01), "ppo": (6e-3, 0.01)}

VARIANTS = methods.METHODS


def get_config(variant: str = "gigpo") -> ml_collections.ConfigDict:
    config = base_config()
    config.num_seeds = 5
    config.updates = 300
    config.log_every = 10
    config.checkpoint.every = 100
    config.env = env_section("Coin-v1", quest_length=5, distractors=2, max_steps_in_episode=20)
    critic = "separate" if variant == "ppo" else "none"
    config.policy = section(policies.mlp, hidden=(64, 64), critic=critic)
    config.rollout = section(rollout.episodes, num_groups=16, group_size=8)
    methods.use(config, variant)
    config.learner.epochs = 2
    config.learner.minibatches = 4
    # Whitened for every method, so that the entropy coefficient has the same meaning for all of
    # them.
    config.learner.normalize_advantage = "batch"
    config.optimizer.learning_rate, config.objective.entropy.weight = TUNED[variant]
    return config
