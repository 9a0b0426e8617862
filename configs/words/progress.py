"""Tool calls in words where success alone pays, by learnt progress per turn (SPA), or the outcome.

Wang et al. (2025), https://arxiv.org/abs/2505.20732. Rewards as in configs/credit/progress.py,
progress told by a network on the transformer's last layer; "published" and "grounded" are "fitted"
and "kept" with SPA's reward of 0.5 for each reply that is a command.

    python -m launchers.train --config=configs/words/progress.py:sft --workdir=runs/progress_sft
    python -m launchers.train --config=configs/words/progress.py:kept \
        --workdir=runs/progress_kept --config.init_from=runs/progress_sft

Five seeds, 2 minutes each. Success of 512 tasks: SFT 0.482, outcome 0.738, kept 0.007, all others
0.000 (README.md).
"""

import ml_collections

from agentrl import rollout
from agentrl.config import check_variant, env_section, section
from configs._shared import language
from configs.credit import progress

# The preset over arrays, and SPA's weight of replies that are commands.
ARMS = {
    "outcome": ("outcome", None),
    "spa": ("spa", 0.0),
    "fitted": ("fitted", 0.0),
    "kept": ("kept", 0.0),
    "published": ("fitted", 0.5),
    "grounded": ("kept", 0.5),
}
VARIANTS = ("sft", *ARMS)


def get_config(variant: str = "kept") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    first = variant == "sft"
    config = language.config_of(
        "ppo",
        # A coin's way is too long for what SFT teaches in words: 0.005 come to its end.
        env_section("ToolCalls-v1", tools=3, arguments=3, needed=2, limit=5, partial=0.0),
        section(rollout.episodes, num_groups=16, group_size=8),
        section(rollout.contexts.whole),
        warm_updates=40 if first else 0,
        updates=0 if first else 120,
    )
    config.num_seeds = 5
    config.evaluation.update(every=config.updates, episodes=512)
    config.learner.update(microbatch=32, lengths=1)
    if first:
        return config
    arm, beta = ARMS[variant]
    arrays = progress.get_config(arm)
    config.advantage, config.components = arrays.advantage, arrays.components
    config.reward = arrays.reward
    # Else episodes at the limit are worth what the critic hopes for, and all come to it.
    config.advantage.at_limit = "end"
    if beta is not None:
        config.reward.progress.beta = beta
    config.optimizer.learning_rate = 1e-3
    return config
