"""Telecom: a support desk with all tools, or one that has to ask its user for most of them.

Barres et al. (2025), tau2-bench, https://arxiv.org/abs/2506.07982; the desk learns by PPO from
success alone. "solo": it has all tools. "dual": the user is the same policy in a seat of its own.
"scripted", "easy", "hard": the user is a script of that persona ("scripted" always does as asked).

    python -m launchers.train --config=configs/teams/telecom.py:easy --workdir=runs/telecom_easy

One CPU core, 1.5 minutes. Success after 300 updates (three seeds): solo and scripted 0.770, easy
0.760, dual 0.788, hard 0.532; random play 0.10, experts all but 1 % (README.md).
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section
from envs.telecom.env import PERSONAS

# Of each method: the user, and its persona in training.
VARIANTS = {
    "solo": ("solo", "none"),
    "dual": ("learned", "none"),
    "scripted": ("scripted", "none"),
    "easy": ("scripted", "easy"),
    "hard": ("scripted", "hard"),
}


def get_config(variant: str = "solo") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    user, persona = VARIANTS[variant]
    config = base_config()
    config.updates = 300
    config.log_every = 20
    config.env = env_section("Telecom-v1", user=user, **PERSONAS[persona])
    config.policy = section(policies.mlp, hidden=(64, 64), critic="shared")
    config.rollout = section(rollout.episodes, num_groups=64, group_size=1, mask_illegal=True)
    config.advantage = section(advantages.gae, gamma=0.99, lam=0.95)
    config.objective.value.weight = 0.5
    config.learner.update(epochs=2, minibatches=4, microbatch=320, normalize_advantage="batch")
    config.objective.entropy.weight = 0.01
    config.optimizer.learning_rate = 2e-3
    config.evaluation.update(every=300, episodes=512)
    return config
