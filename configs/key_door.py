"""A chain of locked rooms by a planner and an executor: HiPER's hierarchical credit, or flat GAE.

    python -m launchers.train --config=configs/key_door.py:hae --workdir=runs/key_door_hae
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.training import credit
from agentrl.training.config import env_section, section
from agentrl.training.experiment import base_config

METHODS = {
    "hae": lambda: section(credit.hae, gamma=0.99, lam=0.95, subgoal_lam=0.95),
    "flat": lambda: section(advantages.gae, gamma=0.99, lam=0.95),
}


def get_config(method: str = "hae") -> ml_collections.ConfigDict:
    if method not in METHODS:
        raise ValueError(f"configs/key_door.py:{method}: expected one of {', '.join(METHODS)}")
    config = base_config()
    config.num_seeds = 5
    config.updates = 200
    config.log_every = 10
    config.env = env_section("PlannedKeyDoor-v1", rooms=3)
    config.policy = section(policies.mlp, hidden=(64, 64), critic="separate")
    config.rollout = section(rollout.matches, num_groups=64)
    config.advantage = METHODS[method]()
    config.learner.update(epochs=2, minibatches=4, entropy_coefficient=0.01)
    # The two levels by themselves, as in HiPER's recipe.
    config.learner.normalize_advantage = "role"
    config.optimizer.learning_rate = 1e-3
    return config
