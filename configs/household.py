"""Household-v1 in words by a transformer from scratch: warm start, then GRPO, GiGPO, RLOO or PPO.

Feng et al. (2025), Group-in-Group Policy Optimization, https://arxiv.org/abs/2505.10978, trained
models of 1.5B and 7B parameters on ALFWorld; here is the same game with fewer things in it.

    python -m launchers.train --config=configs/household.py:gigpo --workdir=runs/household
"""

import ml_collections

from agentrl import policies, rollout
from agentrl.training.config import env_section, section
from agentrl.training.experiment import base_config
from configs import methods


def get_config(method: str = "gigpo") -> ml_collections.ConfigDict:
    config = base_config()
    config.updates = 520
    config.log_every = 20
    config.env = env_section("Household-v1", expert_sees_all=False)
    config.policy = section(
        policies.transformer,
        width=64,
        layers=2,
        heads=2,
        kv_heads=2,
        hidden=128,
        critic="shared" if method == "ppo" else "none",
    )
    # The compact wording marks what has been visited: no turn needs the ones before it.
    config.rollout = section(
        rollout.conversation, num_groups=16, group_size=8, context="window", history=0
    )
    # Divided by the standard deviation, GiGPO lost success here (0.65 to 0.57 in 80 updates).
    config.advantage = methods.advantage("household.py", method, normalize="mean")
    config.reward.invalid_action_penalty = {"coefficient": 0.02}
    config.warm_start.update(updates=400, episodes=32, learning_rate=3e-3)
    config.learner.minibatches = 4
    config.learner.microbatch = 64
    config.learner.normalize_advantage = "batch"
    config.optimizer.learning_rate = 3e-4
    # After the warm start, and at the end.
    config.evaluation.every = 400
    return config
