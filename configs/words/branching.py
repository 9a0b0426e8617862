"""Coin-v1 in words: episodes that branch where the policy is uncertain (ARPO), or GRPO.

Dong et al. (2025), https://arxiv.org/abs/2507.19849. "soft", "hard": see `methods.branching`;
"aepo": a budget of branches by entropies, fewer in a row, and AEPO's loss (2510.14545).

    python -m launchers.train --config=configs/words/branching.py:soft --workdir=runs/branching

Five seeds after SFT (0.06), two busy CPU cores: 5 minutes. Success on 256 tasks at 300,000 sampled
tokens, interpolated: GRPO 0.70, soft 0.65, hard 0.65, aepo 0.74; mean until then 0.44,
0.45, 0.45, 0.48 (README.md).
"""

import ml_collections

from agentrl import advantages, losses, rollout
from agentrl.config import check_variant, env_section, section, term
from agentrl.methods.branching import branching
from configs._shared import language

VARIANTS = ("soft", "hard", "aepo", "grpo")


def get_config(variant: str = "soft") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    sizes = {"num_groups": 16, "group_size": 8}
    # Entropies of replies differ by some hundredths of log V: beta is large for them to count.
    branches = section(branching, **sizes, initial=4, alpha=0.2, beta=4.0)
    config = language.config_of(
        "grpo",
        env_section("Coin-v1"),
        section(rollout.episodes, **sizes) if variant == "grpo" else branches,
        section(rollout.contexts.whole),
        warm_updates=80,
        updates=160,
    )
    config.num_seeds = 5
    config.evaluation.every = 20
    if variant == "aepo":
        # Up to six of eight may branch; the budget's sharpness is raised as beta is.
        config.rollout.update(initial=2, penalty=0.05, sharpness=10.0)
        config.objective.policy = term(losses.aepo)
    if variant == "hard":
        config.reweighting.shared_prefix = section(advantages.shared_prefix)
    return config
