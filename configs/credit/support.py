"""Support-v1: comfort a user. Credit by returns of equal turns, by rewards of all turns, or both.

MAPO (2026), https://arxiv.org/abs/2603.06194, from two readings by others: "mixed" takes the return
to go among equal turn numbers of the group and the turn's reward among all turns of the group, half
each; "turn" and "pool" one of them; "outcome" is GRPO on the dialogue's sum. What a turn pays is
the decrease of the user's distance.

    python -m launchers.train --config=configs/credit/support.py:mixed --workdir=runs/mixed

Five seeds, two busy CPU cores: a minute. Success of 1,024 tasks: turn 0.72, outcome 0.28, mixed
0.19, pool 0.19, expert 0.79: to guess pays at once, to ask a turn later (README.md).
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section

# The weight of the return to go.
WEIGHTS = {"mixed": 0.5, "turn": 1.0, "pool": 0.0}
VARIANTS = (*WEIGHTS, "outcome")


def get_config(variant: str = "mixed") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = base_config()
    config.num_seeds = 5
    config.updates = 100
    config.log_every = 10
    config.env = env_section("Support-v1")
    config.rollout = section(rollout.episodes, num_groups=16, group_size=8)
    config.policy = section(policies.mlp, hidden=(64, 64), critic="none")
    config.advantage = section(advantages.grpo)
    config.learner.update(minibatches=4)
    config.optimizer.learning_rate = 1e-3
    config.evaluation.update(every=100, episodes=1024)
    if variant in WEIGHTS:
        config.advantage = section(advantages.mapo, turn_weight=WEIGHTS[variant])
    return config
