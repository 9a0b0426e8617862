"""A transformer from scratch that imitates the expert of any environment in words.

The argument is the environment: what it solves after that is the baseline of everything trained
from there. The policy reads the last two turns and the new observation.

    python -m launchers.train --config=configs/imitation.py:Wordle-v1 --workdir=runs/wordle
"""

import ml_collections

from agentrl import advantages, rollout
from agentrl.training.base_config import base_config
from agentrl.training.config import env_section, section
from configs import language


def get_config(environment: str = "Household-v1") -> ml_collections.ConfigDict:
    config = base_config()
    config.updates = 400
    config.log_every = 40
    config.env = env_section(environment)
    config.policy = language.policy()
    config.rollout = section(rollout.episodes)
    config.context = section(rollout.contexts.window, history=2)
    config.advantage = section(advantages.grpo)
    config.warm_start.update(updates=400, episodes=32, learning_rate=3e-3)
    config.learner.microbatch = 64
    return config
