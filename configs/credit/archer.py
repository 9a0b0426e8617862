"""KeyDoor with critics of replies from a replay (ArCHer), or PPO with its critic of turns.

Zhou et al. (2024), ArCHer, https://arxiv.org/abs/2402.19446; code 7c771a7 (read).

    python -m launchers.train --config=configs/credit/archer.py:archer_clipped --workdir=runs/archer

Five seeds, two busy CPU cores: 1.5 minutes with ArCHer, 30 s with PPO. Mean success over the run,
and at the end: ArCHer with PPO's clip and eight steps per batch 0.526 (0.97 to 0.99), though the
policy waits for the critics for 20 of 100 updates; with one step of plain REINFORCE, as published,
0.079 (0.17 to 0.21); PPO 0.329 (0.00 to 0.98). With 50 instead of 200 steps of the critics per
update ArCHer with the clip learns nothing: 0.014.
"""

import ml_collections

from agentrl import advantages, losses, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section, term
from agentrl.methods.archer import archer

VARIANTS = ("archer", "archer_clipped", "ppo")


def get_config(variant: str = "archer") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = base_config()
    config.num_seeds = 5
    config.updates = 100
    config.log_every = 10
    config.env = env_section("KeyDoor-v1", rooms=2)
    critic = "separate" if variant == "ppo" else "none"
    config.policy = section(policies.mlp, hidden=(64, 64), critic=critic)
    config.rollout = section(rollout.episodes, num_groups=16, group_size=8)
    config.learner.update(epochs=2, minibatches=4, normalize_advantage="batch")
    config.objective.entropy.weight = 0.01
    config.optimizer.learning_rate = 1e-3
    if variant == "ppo":
        config.advantage = section(advantages.gae, gamma=0.95, lam=0.95)
        config.objective.value.weight = 0.5
        return config
    config.components.archer = section(archer, steps=200)
    config.advantage = section(advantages.twin_critics)
    if variant == "archer":
        # Plain REINFORCE is for the policy's own samples: one step on each batch.
        config.objective.policy = term(losses.reinforce)
        config.learner.update(epochs=1, minibatches=1)
    return config
