"""New in the run, or new in the episode? One house for all episodes, or another for each.

Henaff et al. (2023), https://arxiv.org/abs/2306.03236: counts over the run ("global"), E3B on an
inverse model's features ("e3b"), their product; ten rooms in a chain, hardly ever found by chance.

    python -m launchers.train --config=configs/credit/exploration.py:fresh_e3b --workdir=runs/new

Five seeds, a minute or two. Success in the last 20 of 200 updates, shared: none 0.98, global 0.92,
e3b 0.92, product 0.93, over the run 0.68, 0.85, 0.81, 0.87; fresh: 0, 0, 0.82, 0.65 (README.md).
"""

import ml_collections

from agentrl import advantages, policies, rewards, rollout
from agentrl.config import base_config, check_variant, env_section, section
from agentrl.methods.counts import visit_counts
from agentrl.methods.curriculum import curriculum, tasks_by_number
from agentrl.methods.e3b import e3b

ARMS = ("none", "global", "e3b", "global_e3b")
VARIANTS = tuple(f"{world}_{arm}" for world in ("shared", "fresh") for arm in ARMS)


def get_config(variant: str = "fresh_e3b") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    world, _, arm = variant.partition("_")
    config = base_config()
    config.num_seeds = 5
    config.updates = 200
    config.log_every = 10
    config.env = env_section("Coin-v1", quest_length=10, num_names=64, max_steps_in_episode=25)
    config.policy = section(policies.mlp, hidden=(64, 64), critic="none")
    config.rollout = section(rollout.episodes, num_groups=8, group_size=8)
    if world == "shared":
        config.sampler = section(tasks_by_number)
        config.components.curriculum = section(curriculum, tasks=1, floor=1.0)
    config.advantage = section(advantages.grpo)
    config.objective.entropy.weight = 0.01
    config.learner.update(epochs=2, minibatches=4, normalize_advantage="batch")
    config.optimizer.learning_rate = 3e-3
    use_bonus(config, arm, 0.02)
    return config


def use_bonus(config: ml_collections.ConfigDict, arm: str, coefficient: float) -> None:
    """Pays the bonus of `arm` for what is new, in the run or in the episode."""
    if arm == "none":
        return
    if arm == "global":
        config.components.visit_counts = section(visit_counts, first_only=False)
    else:
        across = "counts" if arm == "global_e3b" else "none"
        config.components.e3b = section(e3b, across=across)
    config.reward.novelty = section(rewards.novelty_bonus, coefficient=coefficient)
