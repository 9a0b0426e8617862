"""Running sums in words: turns right in a row, and wrong answers in the history.

Sinha et al. (2025), "The illusion of diminishing returns: measuring long horizon execution in
LLMs", https://arxiv.org/abs/2509.09677.

    python -m launchers.train --config=configs/words/dict_sum.py --workdir=runs/sums

Two seeds (--config.num_seeds=2), two busy CPU cores: 3 minutes. SFT in 8 turns, then 32: step
accuracy falls from 1.00 to 0.84 and 0.80, prefix accuracy is below a half from turn 22 and 17 on.
"""

import ml_collections

from agentrl import rollout
from agentrl.config import env_section, section
from configs._shared import language


def get_config() -> ml_collections.ConfigDict:
    # Small values: most sums of 32 turns occur in 8 turns, too.
    env = env_section(
        "DictSum-v1",
        pairs=4,
        span=2,
        turns=8,
        limit=64,
        recall=3,
        dictionary_seed=0,
        reward="index",
    )
    acting = section(rollout.episodes, num_groups=16, group_size=8)
    # The observation repeats the last turns, so that a history can be filled in.
    context = section(rollout.contexts.window)
    return language.config_of("sft", env, acting, context, warm_updates=300, updates=0)
