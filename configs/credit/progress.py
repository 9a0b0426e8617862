"""Coin-v1 with learnt progress per turn (SPA) in the place of a reward at the end.

Wang et al. (2025), https://arxiv.org/abs/2505.20732. "outcome" has the environment's reward.

    python -m launchers.train --config=configs/credit/progress.py:kept --workdir=runs/spa

Five seeds, a minute of a CPU core or two. Success at the end: outcome 0.98 to 0.99; progress fitted
to each batch as it comes ("spa") 0.00 to 0.02, to 4,096 explored episodes beforehand ("fitted", as
published) 0.00, since the policy finds where it is wrong, beforehand and to each batch ("kept")
0.94 to 0.99. Where one episode of fifty succeeds, "spa" learns that all progress is nearly 0.
"""

import ml_collections

from agentrl import advantages, policies, rewards, rollout
from agentrl.config import base_config, check_variant, env_section, section
from agentrl.methods.progress import progress

VARIANTS = ("spa", "fitted", "kept", "outcome")


def get_config(variant: str = "spa") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = base_config()
    config.num_seeds = 5
    config.updates = 200
    config.log_every = 10
    config.env = env_section("Coin-v1", quest_length=5, distractors=2, max_steps_in_episode=20)
    config.policy = section(policies.mlp, hidden=(64, 64), critic="separate")
    config.rollout = section(rollout.episodes, num_groups=128, group_size=1)
    config.advantage = section(advantages.gae, gamma=0.99, lam=0.95)
    config.objective.value.weight = 0.5
    config.objective.entropy.weight = 0.01
    config.learner.update(epochs=2, minibatches=4, normalize_advantage="batch")
    config.optimizer.learning_rate = 3e-3
    if variant != "outcome":
        options = {} if variant == "spa" else {"explore": 32, "balanced": True}
        if variant == "fitted":
            options["steps"] = 0
        config.components.progress = section(progress, **options)
        config.reward.progress = section(rewards.progress_reward, beta=0.0)
    return config
