"""GiGPO on a slippery FrozenLake: a first run in seconds.

The rules are those of Wang et al. (2025), RAGEN, https://arxiv.org/abs/2504.20073.

    python -m launchers.train --config=configs/start/frozen_lake.py --workdir=runs/frozen_lake

Two CPU cores, seconds. Expected success on 1,024 tasks, five seeds: 0.31 (0.30 to 0.33); random
play 0.24, the expert 0.50 (README.md).
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, env_section, section


def get_config() -> ml_collections.ConfigDict:
    config = base_config()
    config.updates = 200
    config.log_every = 10
    config.env = env_section("FrozenLake-v1")
    config.policy = section(policies.mlp, hidden=(64, 64), critic="none")
    config.rollout = section(rollout.episodes, num_groups=16, group_size=8)
    config.advantage = section(advantages.gigpo)
    config.learner.minibatches = 4
    config.objective.entropy.weight = 0.01
    config.optimizer.learning_rate = 1e-3
    return config
