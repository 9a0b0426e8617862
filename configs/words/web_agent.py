r"""Shop-v1 with a reward of 0 or 1: behaviour cloning, then GRPO, without old pages.

Wei et al. (2025), WebAgent-R1, https://arxiv.org/abs/2505.16421: earlier pages are replaced by a
short placeholder once a new one arrives. Context "sliding" does that: the replies stay, an older
page shrinks to its control tokens, and a turn is trained with the page that it was written for.

    python -m launchers.train --config=configs/words/web_agent.py:sft --workdir=runs/web_sft
    python -m launchers.train --config=configs/words/web_agent.py:compressed --workdir=runs/web \
        --config.init_from=runs/web_sft

Five seeds, two busy CPU cores, 4 and 7 minutes. Success: cloned 0.56, compressed 0.69, asynchronous
(sampled an update behind) 0.70; "whole", with all pages, 0.52 and 0.67; "scratch": no cloning.
"""

import ml_collections

from agentrl import rollout
from agentrl.config import check_variant, env_section, section
from configs._shared import language

VARIANTS = ("sft", "whole_sft", "compressed", "asynchronous", "whole", "scratch")


def get_config(variant: str = "compressed") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    first = variant.endswith("sft")
    compresses = not variant.startswith("whole")
    config = language.config_of(
        "sft" if first else "grpo",
        env_section("Shop-v1", products=16, options=1, success_only=True),
        section(rollout.episodes, num_groups=16, group_size=8),
        section(rollout.contexts.sliding if compresses else rollout.contexts.whole),
        warm_updates=200 if first else 0,
        updates=20 if variant == "scratch" else 60,
    )
    config.num_seeds = 5
    config.evaluation.update(every=config.updates, episodes=512)
    # Nothing but success is rewarded.
    config.reward = ml_collections.ConfigDict()
    config.objective.kl.weight = 0.001
    if variant == "asynchronous":
        # Episodes are played while the update before them is computed.
        config.staleness = 1
    return config
