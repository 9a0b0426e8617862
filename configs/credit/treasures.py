"""Treasures-v1: a reward with memory, learnt from labels of whole trajectories, pays the policy.

Early et al. (2022), multiple-instance reward models, https://arxiv.org/abs/2205.15367.

    python -m launchers.train --config=configs/credit/treasures.py:key_csc --workdir=runs/treasures

Five seeds, two minutes of a CPU core. True return at the end: paid by the environment 43.1 (41.9 to
43.7); by a model with memory (CSC) 31.5, four seeds 30.7 to 43.0 and one 0.1, whose fit found no
memory; by a model without memory 0.1 (README.md).
"""

import ml_collections

from agentrl import advantages, policies, rewards, rollout
from agentrl.config import base_config, check_variant, env_section, section
from agentrl.methods.progress import progress

# The hidden memory of the treasure, and who pays: the environment, or a model of it.
VARIANTS = ("key_true", "key_instance", "key_csc")


def get_config(variant: str = "key_csc") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    memory, model = variant.split("_")
    config = base_config()
    config.num_seeds = 5
    config.updates = 40
    config.log_every = 10
    config.env = env_section("Treasures-v1", cells=6, memory=memory)
    config.policy = section(policies.gru, hidden=(64,), memory_size=32, critic="shared")
    config.rollout = section(rollout.episodes, num_groups=64, group_size=1)
    config.advantage = section(advantages.gae, gamma=0.97, lam=0.95)
    config.objective.value.weight = 0.5
    config.objective.entropy.weight = 0.01
    config.learner.update(epochs=4, minibatches=4, normalize_advantage="batch")
    config.optimizer.learning_rate = 3e-3
    if model != "true":
        config.components.progress = section(
            progress,
            kind=model,
            reads="observation",
            explore=16,
            fit=1500,
            steps=0,
            balanced=True,
            memory=8,
            learning_rate=3e-3,
        )
        config.reward.progress = section(rewards.progress_reward, beta=0.0)
    return config
