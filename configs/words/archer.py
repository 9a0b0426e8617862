"""Coin-v1 in words, 80 updates of SFT, then ArCHer (Zhou et al. 2024), turn PPO or GRPO.

https://arxiv.org/abs/2402.19446; code 7c771a7 (read). "archer": critics of replies from a replay,
the policy on its own new episodes; "replayed", as published: on replies that it draws anew in
observations of the replay. All without the penalty for replies that are no commands.

    python -m launchers.train --config=configs/words/archer.py:sft --workdir=runs/archer_sft
    python -m launchers.train --config=configs/words/archer.py:archer \
        --workdir=runs/archer --config.init_from=runs/archer_sft
"""

import ml_collections

from agentrl import advantages, losses
from agentrl.config import check_variant, section, term
from agentrl.methods.archer import archer
from configs.words import turn_credit

# What the other presets are in turn_credit.py.
OTHERS = {"sft": "sft", "ppo": "turns", "grpo": "grpo"}
VARIANTS = ("archer", "replayed", *OTHERS)


def get_config(variant: str = "archer") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = turn_credit.get_config(OTHERS.get(variant, "grpo"))
    # It is not the environment's, and the critics of replies learn from the environment's rewards.
    del config.reward["invalid_action_penalty"]
    if variant in OTHERS:
        return config
    config.components.archer = section(
        archer, hidden=32, steps=50, batch=32, size=1024, warm_up=20, rows=128
    )
    config.advantage = section(advantages.twin_critics)
    if variant == "replayed":
        config.objective.policy = term(losses.clipped_surrogate, source="archer")
    return config
