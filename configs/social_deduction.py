"""Social deduction: a crew that learns by reward alone, by listening too, and by speaking too.

python -m launchers.train --config=configs/social_deduction.py:speaking --workdir=runs/speaking
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.training import credit
from agentrl.training.config import env_section, section
from agentrl.training.experiment import base_config

METHODS = ("rl", "listening", "speaking")


def get_config(method: str = "speaking") -> ml_collections.ConfigDict:
    if method not in METHODS:
        raise ValueError(
            f"configs/social_deduction.py:{method}: expected one of {', '.join(METHODS)}"
        )
    config = base_config()
    config.num_seeds = 3
    config.updates = 120
    config.log_every = 12
    config.env = env_section("SocialDeduction-v1", task_steps=4, max_steps_in_episode=60)
    config.policy = section(policies.mlp, hidden=(64, 64), critic="shared")
    config.rollout = section(rollout.matches, num_groups=64, opponent="expert", side="crew")
    config.advantage = section(advantages.gae, gamma=0.99, lam=0.95)
    config.learner.update(
        epochs=2,
        minibatches=4,
        microbatch=400,
        normalize_advantage="batch",
        entropy_coefficient=0.02,
    )
    config.optimizer.update(learning_rate=2e-3, schedule="linear")
    config.evaluation.update(every=60, episodes=1024, opponent="expert", side="crew")
    if method != "rl":
        config.policy.answers = config.env.players
        config.learner.listening_coefficient = 0.3
    if method == "speaking":
        config.rollout.listeners = "others"
        config.reward.speaking = section(credit.speaking, named=False)
    return config
