"""One locked room by a Q learner that is told values of some actions first (Q-shaping).

Wu (2024), https://arxiv.org/abs/2410.01458 (from reviews, not read). Values of 0.1 against 0 that
are right or wrong, right ones of 1 against 0 ("large"), or none, in 20 of 150 updates.

    python -m launchers.train --config=configs/credit/q_shaping.py:right --workdir=runs/q_shaping

Five seeds, 1,200 episodes, a minute of processor time. Success of 512 tasks: none 0.79, right 0.77,
wrong 0.50, large 0.54 (README.md).
"""

import ml_collections

from agentrl import losses, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section, term
from agentrl.methods.q_shaping import q_shaping

ARMS = {
    "right": {"good": 0.1},
    "none": {"examples": 0},
    "wrong": {"good": 0.1, "correct": 0.0},
    "large": {},
}
VARIANTS = tuple(ARMS)


def get_config(variant: str = "right") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = base_config()
    config.num_seeds = 5
    config.updates = 150
    config.log_every = 10
    config.env = env_section("KeyDoor-v1", rooms=1)
    config.policy = section(policies.mlp, hidden=(64, 64), critic="none")
    config.rollout = section(rollout.episodes, num_groups=8, group_size=1)
    # The policy's own episodes only fill the replay.
    config.objective.policy.weight = 0.0
    config.components.q_shaping = section(q_shaping, **ARMS[variant])
    config.objective.actor = term(losses.boltzmann_imitation, source="q_shaping", temperature=0.02)
    config.learner.update(epochs=1, minibatches=4, normalize_advantage="none")
    config.optimizer.learning_rate = 1e-3
    config.evaluation.update(every=150, episodes=512)
    return config
