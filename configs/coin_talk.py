"""Coin-v1 played in words by a transformer from scratch: warm start, then GRPO, GiGPO, RLOO or PPO.

python -m launchers.train --config=configs/coin_talk.py:gigpo --workdir=runs/coin_talk
"""

import ml_collections

from agentrl import policies, rollout
from agentrl.training.config import env_section, section
from agentrl.training.experiment import base_config
from configs import methods


def get_config(method: str = "gigpo") -> ml_collections.ConfigDict:
    config = base_config()
    config.updates = 200
    config.log_every = 10
    config.env = env_section("Coin-v1", quest_length=5, distractors=2, max_steps_in_episode=20)
    config.policy = section(
        policies.transformer,
        width=64,
        layers=2,
        heads=2,
        kv_heads=2,
        hidden=128,
        critic="shared" if method == "ppo" else "none",
    )
    config.rollout = section(rollout.conversation, num_groups=16, group_size=8)
    config.advantage = methods.advantage("coin_talk.py", method, normalize="mean")
    config.reward.invalid_action_penalty = {"coefficient": 0.02}
    config.warm_start.update(updates=100, learning_rate=3e-3)
    config.learner.minibatches = 4
    config.learner.normalize_advantage = "batch"
    config.optimizer.learning_rate = 3e-4
    config.evaluation.every = 100
    return config
