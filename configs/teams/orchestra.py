"""ModSum-v1: when does a team help? One decision builds it, GRPO learns it.

MAS-Orchestra and MASBENCH (code read); the task and its workers are ours. One preset per axis that
varies, "perfect" with workers that make no mistakes, "low" with one worker.

    python -m launchers.train --config=configs/teams/orchestra.py:horizon --workdir=runs/orchestra
    python -m launchers.evaluate --workdir=runs/orchestra

Two CPU cores, 30 s. Reward of five seeds and of the best team: horizon 0.925, 0.932; low 0.747,
0.748; perfect 0.983 both; robustness 0.698, 0.759. The other axes: README.md.
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section

# What varies; all else is a chain of twelve nodes without tampered constants.
AXES = {
    "horizon": {"nodes": (2, 12)},
    "depth": {"nodes": (12, 12), "parts": (1, 12)},
    "breadth": {"nodes": (12, 12), "breadth": 6, "chained": 0.5},
    "parallel": {"nodes": (12, 12), "parts": (1, 4), "chained": 0.5},
    "robustness": {"nodes": (12, 12), "tampered": (0, 2)},
    "perfect": {"nodes": (2, 12), "right": 1.0, "tired": 1.0},
    "low": {"nodes": (2, 12), "low": True},
}
VARIANTS = tuple(AXES)


def get_config(variant: str = "horizon") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = base_config()
    config.num_seeds = 5
    config.updates = 300
    config.log_every = 30
    # A vote costs three times a solo worker's operations and calls.
    config.env = env_section("ModSum-v1", price=0.01, **AXES[variant])
    config.policy = section(policies.mlp, hidden=(64, 64), critic="none")
    config.rollout = section(rollout.episodes, num_groups=64, group_size=16, mask_illegal=True)
    # Not divided: in a group of successes the prices differ alone, and divided they count as much
    # as success. The bonus falls by a factor of 100: what is nearly as good goes on being tried.
    config.advantage = section(advantages.grpo, normalize="mean")
    config.learner.update(minibatches=4, normalize_advantage="batch")
    config.objective.entropy.update(weight=0.3, final_weight=0.003)
    config.optimizer.learning_rate = 1e-3
    config.evaluation.update(every=300, episodes=4096)
    return config
