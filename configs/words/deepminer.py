"""Questions to search for, in a window that moves over the results in strides (DeepMiner).

DeepMiner (2025), from notes. `SearchQA-v1`, two questions, four passages a search; the questions
and all replies stay in view. "strides": of two results in view both leave at once, and
turns in between are one row; "single": one leaves at a time, a row per turn.

    python -m launchers.train --config=configs/words/deepminer.py:strides --workdir=runs/strides

Five seeds: strides 0.656 in 10 busy minutes, single 0.641 in 23 (README.md).
"""

import ml_collections

from agentrl import advantages, rollout
from agentrl.config import check_variant, env_section, section
from configs._shared import language

WINDOW = 2  # results in view, with the new one
STRIDES = {"strides": WINDOW, "single": 1}
VARIANTS = tuple(STRIDES)


def get_config(variant: str = "strides") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    context = section(
        rollout.contexts.sliding, history=WINDOW - 1, keep_first=True, stride=STRIDES[variant]
    )
    config = language.config_of(
        "grpo",
        env_section("SearchQA-v1", objectives=2, entities=20, relations=4, max_hops=1, passages=4),
        section(rollout.episodes, num_groups=8, group_size=8),
        context,
        warm_updates=200,
        updates=60,
    )
    config.num_seeds = 5
    config.optimizer.learning_rate = 1e-3
    config.advantage = section(advantages.pairwise_sign)
    config.learner.update(microbatch=None, lengths=1)
    config.evaluation.episodes = 512
    return config
