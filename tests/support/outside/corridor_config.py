"""A user's own config of their own environment, estimator, loss and component."""

import corridor
import ml_collections

from agentrl import policies, rollout
from agentrl.config import base_config, env_section, section, term


def get_config() -> ml_collections.ConfigDict:
    config = base_config()
    config.updates, config.log_every = 40, 10
    config.env = env_section(corridor.Corridor, length=5)
    config.policy = section(policies.mlp, hidden=(16,), critic="none")
    config.rollout = section(rollout.episodes, num_groups=8, group_size=4)
    config.advantage = section(corridor.faster_is_better)
    config.objective.policy = term(corridor.squared_surrogate)
    config.components.typical_length = section(corridor.typical_length)
    config.optimizer.learning_rate = 0.01
    return config
