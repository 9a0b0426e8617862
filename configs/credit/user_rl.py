r"""How UserRL credits turns and scores episodes, with three users and a chain of doors.

Qian et al. (2025), UserRL, https://arxiv.org/abs/2509.19736; code cf55a30 (read). Variants are
WORLD_CREDIT_SCORE, or WORLD_grpo. Worlds: a vague request, a person to persuade, a story to find
out, and KeyDoor with a reward behind each of three doors.

    python -m launchers.train --config=configs/credit/user_rl.py:intention_equalized_mean \
        --workdir=runs/user_rl

Five seeds, two busy CPU cores: 35 s. Success at the end, a request and a person: equalized by the
mean 0.98 and 0.98, GRPO 0.85 and 0.98, return to go 0.20 and 0.36 (README.md).
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section

# The naive credit of a turn is its own reward.
CREDITS = {
    "equalized": {"credit": "equalized"},
    "return": {"credit": "return_to_go"},
    "exponential": {"credit": "exponential"},
    "naive": {"credit": "return_to_go", "gamma": 0.0},
}
SCORES = ("mean", "discounted")
WORLDS = {
    "intention": env_section("Intention-v1"),
    "persuade": env_section("Persuade-v1"),
    "turtle": env_section("Turtle-v1"),
    "doors": env_section("KeyDoor-v1", rooms=3, door_reward=0.5),
}
METHODS = (*(f"{credit}_{score}" for credit in CREDITS for score in SCORES), "grpo")
VARIANTS = tuple(f"{world}_{method}" for world in WORLDS for method in METHODS)


def get_config(variant: str = "intention_equalized_mean") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    world, _, method = variant.partition("_")
    config = base_config()
    config.num_seeds = 5
    config.updates = 100
    config.log_every = 10
    config.env = WORLDS[world]
    config.policy = section(policies.mlp, hidden=(64, 64), critic="none")
    config.rollout = section(rollout.episodes, num_groups=16, group_size=8)
    config.advantage = section(advantages.grpo)
    if method != "grpo":
        credit, score = method.split("_")
        config.advantage = section(advantages.user_rl, score=score, **CREDITS[credit])
    config.learner.update(epochs=2, minibatches=4, normalize_advantage="batch")
    config.objective.entropy.weight = 0.01
    config.optimizer.learning_rate = 1e-3
    return config
