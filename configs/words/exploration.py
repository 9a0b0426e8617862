"""Coin in words from random weights: bonuses for what is new in the run, or in the episode.

Henaff et al. (2023), https://arxiv.org/abs/2306.03236, as credit/exploration.py, another house
for each task: counts over the run ("global"), E3B on an inverse model's features ("e3b"), their
product.

    python -m launchers.train --config=configs/words/exploration.py:e3b --workdir=runs/new_words

Five seeds, a CPU core, eight minutes an arm. Success of 512 tasks: none 0.77, global 0.00, e3b
0.96, their product 0.74; over the run 0.33, 0.01, 0.62, 0.37 (README.md).
"""

import ml_collections

from agentrl import rollout
from agentrl.config import check_variant, env_section, section
from configs._shared import language
from configs.credit.exploration import ARMS, use_bonus

VARIANTS = ARMS


def get_config(variant: str = "e3b") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = language.config_of(
        "grpo",
        env_section("Coin-v1", quest_length=12, max_steps_in_episode=30),
        section(rollout.episodes, num_groups=8, group_size=8),
        section(rollout.contexts.window, history=0),
        warm_updates=0,
        updates=200,
    )
    config.num_seeds = 5
    config.log_every = 10
    config.reward = {}
    config.policy.constrained = True
    config.objective.entropy.weight = 0.01
    config.learner.update(epochs=2, microbatch=None, lengths=1)
    config.evaluation.update(every=config.updates, episodes=512)
    config.optimizer.learning_rate = 1e-3
    use_bonus(config, variant, 0.02)
    return config
