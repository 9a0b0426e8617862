"""When to ask a calculator: GRPO with ARTIST's rewards, without parts of them, without the tool.

Singh et al. (2025), https://arxiv.org/abs/2505.01441, from notes. configs/_shared/products.py: a
turn costs 0.1. "artist": outcome, format and success of calls; "outcome" alone; "unmasked": what
is read is learnt, too; "no_tool": one turn. From "sft" of an expert that asks every second time.
Three seeds: SFT 0.49, artist 0.87, outcome 0.89, no_tool 0.49, unmasked 0.00 (README.md).

    p=configs/words/artist.py
    python -m launchers.train --config=$p:sft --workdir=runs/artist_sft
    python -m launchers.train --config=$p:artist --workdir=runs/artist \
        --config.init_from=runs/artist_sft
"""

import ml_collections

from agentrl import losses, rewards, rollout
from agentrl.config import check_variant, env_section, section, term
from agentrl.methods.observed import observed
from configs._shared import language
from configs._shared.products import Products

VARIANTS = ("artist", "outcome", "unmasked", "no_tool", "sft")


def get_config(variant: str = "artist") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    first = variant == "sft"
    config = language.config_of(
        "sft" if first else "grpo",
        env_section(Products, turns=1 if variant == "no_tool" else 3),
        section(rollout.episodes, num_groups=16, group_size=8),
        section(rollout.contexts.whole),
        warm_updates=800 if first else 0,
        updates=100,
    )
    config.num_seeds = 3
    config.policy.update(codec="byte", grammar="action")
    config.evaluation.update(every=config.updates, episodes=512)
    config.learner.update(microbatch=None, lengths=1)
    if first:
        return config
    config.reward.step_penalty = section(rewards.step_penalty, amount=0.1)
    if variant in ("artist", "unmasked"):
        # A second call is not paid.
        config.reward.tool_use_reward = section(
            rewards.tool_use_reward, format_weight=0.2, tool_weight=0.2, most_calls=2.0
        )
    if variant == "unmasked":
        config.components.observed = section(observed)
        config.objective.observation = term(losses.observation_loss, weight=1.0)
    return config
