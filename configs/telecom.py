"""Telecom: a support desk that has all tools against one that has to ask its user for most.

python -m launchers.train --config=configs/telecom.py:solo --workdir=runs/telecom_solo
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.training.config import env_section, section
from agentrl.training.experiment import base_config

# Of each: the user, and its persona in training.
METHODS = {
    "solo": ("solo", "none"),
    "dual": ("learned", "none"),
    "scripted": ("scripted", "none"),
    "easy": ("scripted", "easy"),
    "hard": ("scripted", "hard"),
}


def get_config(method: str = "solo") -> ml_collections.ConfigDict:
    if method not in METHODS:
        raise ValueError(f"configs/telecom.py:{method}: expected one of {', '.join(METHODS)}")
    user, persona = METHODS[method]
    config = base_config()
    config.updates = 300
    config.log_every = 20
    config.env = env_section("Telecom-v1", user=user, persona=persona)
    config.policy = section(policies.mlp, hidden=(64, 64), critic="shared")
    config.rollout = section(rollout.matches, num_groups=64)
    config.advantage = section(advantages.gae, gamma=0.99, lam=0.95)
    config.learner.update(
        epochs=2,
        minibatches=4,
        microbatch=320,
        normalize_advantage="batch",
        entropy_coefficient=0.01,
    )
    config.optimizer.learning_rate = 2e-3
    config.evaluation.update(every=300, episodes=512)
    return config
