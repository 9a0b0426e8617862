"""A chain and a command to submit: dense rewards behind the outcome's gate, or summed (G-RA).

G-RA (2025), https://arxiv.org/abs/2508.10548 (notes). 1 for submitting at the target; legal turns
and submitting pay 0.1 where the level above was reached ("gated"), turns where anything was
submitted ("submitted"), always ("summed", D-RA), or never ("outcome").

    python -m launchers.train --config=configs/credit/submission.py:gated --workdir=runs/gated

Five seeds, two CPU cores with much other work: 2 to 17 minutes, 40 s of processor time. Success of
1,024 tasks: outcome 0.96, gated 0.83, submitted 0.36, summed 0.03, which walks about until the time
is over (README.md).
"""

import ml_collections

from agentrl import advantages, policies, rewards, rollout
from agentrl.config import base_config, check_variant, env_section, section
from agentrl.methods.reward_levels import reward_levels

# Thresholds of the submission and of the outcome; no sum is as low as -1.
LEVELS = {"gated": (0.0, 0.5), "submitted": (0.0, -1.0), "summed": (-1.0, -1.0)}
VARIANTS = ("outcome", *LEVELS)


def get_config(variant: str = "gated") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = base_config()
    config.num_seeds = 5
    config.updates = 200
    config.log_every = 20
    config.env = env_section(
        "envs.wrappers.Submission", base=env_section("NumberLine-v1", length=9)
    )
    config.rollout = section(rollout.episodes, num_groups=16, group_size=8)
    config.policy = section(policies.mlp, hidden=(64, 64), critic="none")
    config.advantage = section(advantages.grpo)
    config.learner.update(minibatches=4)
    config.optimizer.learning_rate = 1e-3
    config.evaluation.update(every=200, episodes=1024)
    if variant in LEVELS:
        config.components.reward_levels = section(reward_levels)
        config.reward.gated_accumulation = section(
            rewards.gated_accumulation, named=False, thresholds=LEVELS[variant]
        )
    return config
