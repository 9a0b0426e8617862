"""Coin-v1 in words: episodes that branch where the policy is uncertain (ARPO), or GRPO.

Dong et al. (2025), https://arxiv.org/abs/2507.19849. "soft", "hard": see `methods.branching`;
"aepo": fewer branches in a row, and AEPO's loss (not measured).

    python -m launchers.train --config=configs/branching.py:soft --workdir=runs/branching

Two seeds after SFT (0.06, 0.05), two busy CPU cores: 2 minutes. Success on 256 tasks at 380,000
sampled tokens, interpolated: soft 0.60, 0.41; hard 0.49, 0.41; GRPO 0.56, 0.33. Mean until then:
0.33, 0.24; 0.21, 0.21; 0.34, 0.20: two seeds do not tell them apart. Branches come early (turn 3 of
10), so 12 % of the turns are shared, and an update takes 9 % fewer tokens.
"""

import ml_collections

from agentrl import advantages, losses, rollout
from agentrl.config import env_section, section, term
from agentrl.methods.branching import branching
from configs import language

METHODS = ("soft", "hard", "aepo", "grpo")


def get_config(method: str = "soft") -> ml_collections.ConfigDict:
    if method not in METHODS:
        raise ValueError(f"configs/branching.py:{method}: expected one of {', '.join(METHODS)}")
    sizes = {"num_groups": 16, "group_size": 8}
    # Entropies of replies differ by some hundredths of log V: beta is large for them to count.
    branches = section(branching, **sizes, initial=4, alpha=0.2, beta=4.0)
    config = language.config_of(
        "branching.py",
        "grpo",
        env_section("Coin-v1"),
        section(rollout.episodes, **sizes) if method == "grpo" else branches,
        section(rollout.contexts.whole),
        warm_updates=80,
        updates=160,
    )
    config.num_seeds = 2
    config.evaluation.every = 20
    if method == "aepo":
        config.rollout.penalty = 0.05
        config.objective.policy = term(losses.aepo)
    if method == "hard":
        config.reweighting.shared_prefix = section(advantages.shared_prefix)
    return config
