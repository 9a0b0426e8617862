r"""A shop's desk in words (MUA-RL): a customer inside the rollout, tau-bench's reward.

Zhao et al. (2025), MUA-RL, https://arxiv.org/abs/2508.18669: SFT, then GRPO on whole calls with the
simulated user in them, at KL 0.001, trained on the desk's own tokens. "silent": the reward compares
the database alone and does not require that the customer was told what it asked for.

    python -m launchers.train --config=configs/words/retail.py:sft --workdir=runs/retail_sft
    python -m launchers.train --config=configs/words/retail.py:grpo --workdir=runs/retail_grpo \
        --config.init_from=runs/retail_sft

Five seeds, a CPU core: 20 minutes, then 13 to 18. Success of 512 calls: sft 0.44, grpo 0.50,
silent 0.45; the database alone 0.52, 0.57, 0.60; all of four calls 0.27, 0.41, 0.35 (README.md).
"""

import ml_collections

from agentrl import rollout
from agentrl.config import check_variant, env_section, section
from configs._shared import language

VARIANTS = ("sft", "grpo", "silent")


def get_config(variant: str = "grpo") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    first = variant == "sft"
    scored = "database" if variant == "silent" else "all"
    config = language.config_of(
        "sft" if first else "grpo",
        env_section("Retail-v1", scored=scored, max_steps_in_episode=20),
        section(rollout.episodes, num_groups=16, group_size=8),
        # An observation is the last message. Calls by the manual have at most 220 tokens.
        section(rollout.contexts.whole, context_tokens=256),
        warm_updates=900 if first else 0,
        updates=80,
    )
    config.num_seeds = 5
    config.reward = {}
    config.objective.kl.weight = 0.0 if first else 0.001
    config.learner.update(microbatch=32, lengths=1)
    config.evaluation.update(every=config.updates, episodes=512)
    return config
