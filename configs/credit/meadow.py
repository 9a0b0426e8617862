"""Meadow-v1: a common-sense reward learnt from demonstrations of several tasks, or of one.

Glazer et al. (2024), MT-CSIRL, https://arxiv.org/abs/2402.11367 (summaries); AIRL, or GAIL's logit.

    python -m launchers.train --config=configs/credit/meadow.py:shared_4 --workdir=runs/meadow

Five seeds, a minute or two of a CPU core. True common-sense reward in held-out tasks, where it is
-0.289 with nothing learnt and -0.149 with the true one: one discriminator for four tasks -0.197,
one per task and their mean -0.191, of one task alone -0.245, GAIL's logit -0.327 (README.md).
"""

import ml_collections

from agentrl import advantages, policies, rewards, rollout
from agentrl.config import base_config, check_variant, env_section, section
from agentrl.methods.discriminator import discriminator

# Tasks that are demonstrated, and whether the discriminator is one for all.
VARIANTS = ("shared_4", "shared_1", "apart_4", "gail_4")


def get_config(variant: str = "shared_4") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    kind, goals = variant.split("_")
    config = base_config()
    config.num_seeds = 5
    config.updates = 60
    config.log_every = 20
    config.env = env_section("Meadow-v1", goals=int(goals))
    config.policy = section(policies.mlp, hidden=(64, 64), critic="separate")
    config.rollout = section(rollout.episodes, num_groups=64, group_size=1)
    config.advantage = section(advantages.gae, gamma=0.97, lam=0.95)
    config.objective.value.weight = 0.5
    config.objective.entropy.weight = 0.01
    config.learner.update(epochs=2, minibatches=2, normalize_advantage="batch")
    config.optimizer.learning_rate = 3e-3
    config.components.discriminator = section(
        discriminator,
        shared=kind != "apart",
        form="gail" if kind == "gail" else "airl",
        # As many per task.
        demonstrations=64 * int(goals),
    )
    config.reward.imitation = section(rewards.imitation_reward)
    return config
