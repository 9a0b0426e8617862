"""SFT of a transformer from scratch on the expert of any environment in words.

The argument is the environment; the result is the baseline of every run that starts from it.
The policy reads the last two turns and the new observation.

    python -m launchers.train --config=configs/words/imitation.py:Wordle-v1 --workdir=runs/wordle

Two CPU cores. Expected success of Wordle-v1 after 400 supervised updates: 0.75 (random
play 0.04, expert 1.00); the table of all environments is in README.md.
"""

import ml_collections

from agentrl import advantages, rollout
from agentrl.config import base_config, env_section, section
from configs._shared import language

VARIANTS = {"ENVIRONMENT": "any environment with words and an expert, such as Wordle-v1"}


def get_config(variant: str = "Household-v1") -> ml_collections.ConfigDict:
    config = base_config()
    config.updates = 400
    config.log_every = 40
    config.env = env_section(variant)
    config.policy = language.policy()
    config.rollout = section(rollout.episodes)
    config.context = section(rollout.contexts.window, history=2)
    config.advantage = section(advantages.grpo)
    config.warm_start.update(updates=400, learning_rate=3e-3)
    config.expert.update(episodes=32)
    config.learner.microbatch = 64
    return config
