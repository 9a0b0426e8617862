r"""KeyDoor with a reward behind each door: how UserRL credits turns and scores episodes.

Qian et al. (2025), UserRL, https://arxiv.org/abs/2509.19736; code cf55a30 (read). CREDIT_SCORE, or
"grpo".

    python -m launchers.train --config=configs/credit/user_rl.py:equalized_mean \
        --workdir=runs/user_rl

Five seeds, two busy CPU cores: 35 s. Mean success over the run, with score mean and discounted:
equalized 0.257, 0.117; exponential 0.243, 0.093; return 0.202, 0.160; naive 0.001, 0.000; GRPO
0.201. The discounted score (0.8 per turn) hardly sees a door that takes six turns, and the naive
credit only the turn that opens it. Equalized by mean less GRPO 0.056 +-0.039, paired by seed.
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
VARIANTS = (*(f"{credit}_{score}" for credit in CREDITS for score in SCORES), "grpo")


def get_config(variant: str = "equalized_discounted") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = base_config()
    config.num_seeds = 5
    config.updates = 100
    config.log_every = 10
    config.env = env_section("KeyDoor-v1", rooms=3, door_reward=0.5)
    config.policy = section(policies.mlp, hidden=(64, 64), critic="none")
    config.rollout = section(rollout.episodes, num_groups=16, group_size=8)
    config.advantage = section(advantages.grpo)
    if variant != "grpo":
        credit, score = variant.split("_")
        config.advantage = section(advantages.user_rl, score=score, **CREDITS[credit])
    config.learner.update(epochs=2, minibatches=4, normalize_advantage="batch")
    config.objective.entropy.weight = 0.01
    config.optimizer.learning_rate = 1e-3
    return config
