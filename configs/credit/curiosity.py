"""A long Coin quest: an exploration bonus from a network of its own, or none.

Henaff et al. (2023), https://arxiv.org/abs/2306.03236: NovelD per run times first visits per
episode; "rnd" is random network distillation alone.

    python -m launchers.train --config=configs/credit/curiosity.py:noveld --workdir=runs/curiosity

Three seeds, two busy CPU cores: 1 minute. Mean success over the run: noveld 0.63, none 0.52, rnd
0.34; at the end all 0.95 or above. A coefficient of 0.02 pays more for wandering than the coin
does, and gave 0 on quests of 8 rooms, as in KeyDoor, where a mistake ends the episode.
"""

import ml_collections

from agentrl import advantages, policies, rewards, rollout
from agentrl.config import base_config, check_variant, env_section, section
from agentrl.methods.curiosity import curiosity

VARIANTS = ("noveld", "rnd", "none")


def get_config(variant: str = "noveld") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = base_config()
    config.num_seeds = 3
    config.updates = 200
    config.log_every = 10
    config.env = env_section("Coin-v1", quest_length=6, distractors=1, max_steps_in_episode=20)
    config.policy = section(policies.mlp, hidden=(64, 64), critic="separate")
    config.rollout = section(rollout.episodes, num_groups=64, group_size=1)
    config.advantage = section(advantages.gae, gamma=0.99, lam=0.95)
    config.objective.value.weight = 0.5
    config.objective.entropy.weight = 0.01
    config.learner.update(epochs=2, minibatches=4, normalize_advantage="batch")
    config.optimizer.learning_rate = 1e-3
    if variant != "none":
        novelty = {"known_scale": 0.1, "episodic": "first"} if variant == "noveld" else {}
        config.components.curiosity = section(curiosity, **novelty)
        config.reward.novelty = section(rewards.novelty_bonus, coefficient=0.003)
    return config
