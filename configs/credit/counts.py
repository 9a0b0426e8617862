"""Four locked rooms with one reward at the end: nothing is learnt unless something is new.

A bonus of 0.02 / sqrt(N) for what a turn leads to, N counted over all of training, at its first
visit in an episode ("first") or at every visit ("all"); NovelD, which tells what is new by a
network ("noveld", configs/credit/curiosity.py); none.

    python -m launchers.train --config=configs/credit/counts.py:first --workdir=runs/counts

Five seeds, 100 updates, two busy CPU cores: a minute or two. Success on 512 tasks at the end, with
--config.evaluation.every=100 --config.evaluation.episodes=512: first 0.91 (0.89 to 0.92 over the
seeds), all 0.87 (0.84 to 0.90), noveld 0.88 (0.86 to 0.90), none 0 in every seed.
"""

import ml_collections

from agentrl import advantages, policies, rewards, rollout
from agentrl.config import base_config, check_variant, env_section, section
from agentrl.methods.counts import visit_counts
from agentrl.methods.curiosity import curiosity

VARIANTS = ("first", "all", "noveld", "none")


def get_config(variant: str = "first") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = base_config()
    config.num_seeds = 5
    config.updates = 100
    config.log_every = 10
    config.env = env_section("KeyDoor-v1", rooms=4)
    config.policy = section(policies.mlp, hidden=(64, 64), critic="none")
    config.rollout = section(rollout.episodes, num_groups=16, group_size=8)
    config.advantage = section(advantages.grpo)
    config.objective.entropy.weight = 0.01
    config.learner.update(epochs=2, minibatches=4, normalize_advantage="batch")
    config.optimizer.learning_rate = 3e-3
    if variant == "none":
        return config
    if variant == "noveld":
        config.components.curiosity = section(curiosity, known_scale=0.1, episodic="first")
    else:
        config.components.visit_counts = section(visit_counts, first_only=variant == "first")
    coefficient = 0.003 if variant == "noveld" else 0.02
    config.reward.novelty = section(rewards.novelty_bonus, coefficient=coefficient)
    return config
