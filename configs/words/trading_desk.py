r"""TradingDesk-v1 in words: does a policy that learnt to ask by SFT keep asking under GRPO?

The market of configs/credit/trading_desk.py, HOLD right on 80 % of the days. "grpo": advantages
divided by their deviation in the group; "raw": undivided, as what keeps asking over arrays.

    python -m launchers.train --config=configs/words/trading_desk.py:sft --workdir=runs/desk_sft
    python -m launchers.train --config=configs/words/trading_desk.py:raw --workdir=runs/desk_raw \
        --config.init_from=runs/desk_sft

Five seeds, two minutes an arm. Success 0.96 after SFT, 0.88 with "grpo", 0.95 with "raw"; never
asking has 0.80. All keep asking, "grpo" less and less (README.md).
"""

import ml_collections

from agentrl import rollout
from agentrl.config import check_variant, env_section, section
from configs._shared import language

VARIANTS = ("sft", "grpo", "raw")


def get_config(variant: str = "raw") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    first = variant == "sft"
    config = language.config_of(
        "sft" if first else "grpo",
        env_section("TradingDesk-v1", hold_share=0.8),
        section(rollout.episodes, num_groups=8, group_size=8),
        # The words name all that was answered: a turn needs no earlier ones.
        section(rollout.contexts.window, history=0),
        warm_updates=800 if first else 0,
        updates=300,
    )
    config.num_seeds = 5
    config.reward = {}
    if variant == "raw":
        config.advantage.normalize = "mean"
        config.learner.normalize_advantage = "none"
    config.learner.update(microbatch=64, lengths=1)
    config.evaluation.update(every=config.updates, episodes=1024)
    return config
