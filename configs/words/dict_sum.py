"""Running sums in words: turns right in a row, and wrong answers in the history.

Sinha et al. (2025), "The illusion of diminishing returns: measuring long horizon execution in
LLMs", https://arxiv.org/abs/2509.09677.

"sft"; then GRPO in its own history: "index" (right turns), "prefix" (right so far), "step", "all".

    python -m launchers.train --config=configs/words/dict_sum.py:sft --workdir=runs/sums
    python -m launchers.train --config=configs/words/dict_sum.py:prefix --workdir=runs/sums_prefix \
        --config.init_from=runs/sums

Five seeds, two busy CPU cores: 8 minutes, then 4. All of 8 turns right: sft 0.78, index 0.82,
prefix 0.84, step 0.84, all 0.84; steps right in 32 turns: 0.82, step 0.88 (README.md).
"""

import ml_collections

from agentrl import rollout
from agentrl.config import check_variant, env_section, section
from configs._shared import language

VARIANTS = ("sft", "index", "prefix", "step", "all")


def get_config(variant: str = "sft") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    first = variant == "sft"
    # Small values: most sums of 32 turns occur in 8 turns, too.
    env = env_section(
        "DictSum-v1",
        pairs=4,
        span=2,
        turns=8,
        limit=64,
        recall=3,
        dictionary_seed=0,
        reward="index" if first else variant,
    )
    acting = section(rollout.episodes, num_groups=16, group_size=8)
    # The observation repeats the last turns, so that a history can be filled in.
    context = section(rollout.contexts.window)
    config = language.config_of(
        "sft" if first else "grpo", env, acting, context, warm_updates=300 * first, updates=80
    )
    config.num_seeds = 5
    config.evaluation.update(every=config.updates, episodes=512)
    if not first:
        config.reward = {}
    return config
