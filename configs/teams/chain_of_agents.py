r"""One policy activates the agents of a team as tagged turns: distilled, then GRPO (AFM).

Chain-of-Agents (2025), https://arxiv.org/abs/2508.13167. "sft": supervised steps on the episodes of
a scripted team of three, without the tool's words. "grpo": DAPO's parts and a penalty for repeated
calls, --config.init_from of "sft"; decoding keeps the order of tags. "rewarded": the order is not
kept by decoding, and an episode that breaks it is worth 0. "scratch": "grpo" without distillation.

    python -m launchers.train --config=configs/teams/chain_of_agents.py:sft --workdir=runs/coa_sft
    python -m launchers.train --config=configs/teams/chain_of_agents.py:grpo --workdir=runs/coa \
        --config.init_from=runs/coa_sft

Success: distilled 0.62, 0.68, then GRPO 0.60, 0.66, "rewarded" 0.70, "scratch" 0.15 (README.md).
"""

import ml_collections

from agentrl import advantages, rewards, rollout
from agentrl.config import check_variant, env_section, section
from agentrl.methods.segments import segments
from configs._shared import language

VARIANTS = ("sft", "grpo", "rewarded", "scratch")
# Which tags may follow which, and grades that decide it: the rules of the released web agent, where
# a search and a visit of a page are both a lookup, and every turn has a thought: (always think).
ORDER = """
plan
(always (implies plan (next (or lookup suggest))))
(always (implies lookup (next (or lookup reflect suggest))))
(always (implies "reflect good" (next (or plan lookup suggest))))
(always (implies "reflect poor" (next plan)))
(always (implies suggest (next check)))
(always (implies (or "check 1" "check 2") (next (or plan lookup))))
(always (implies (or "check 3" "check 4") (next answer)))
(always (implies answer last))
"""


def get_config(variant: str = "grpo") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    first = variant == "sft"
    config = language.config_of(
        "sft" if first else "grpo",
        env_section("LookupCheck-v1"),
        section(rollout.episodes, num_groups=8, group_size=8),
        section(rollout.contexts.whole),
        warm_updates=400 if first else 0,
        updates=80,
    )
    config.num_seeds = 2
    config.log_every = 20
    config.policy.behaviour = ORDER
    config.policy.enforce = variant != "rewarded"
    config.evaluation.update(every=100 if first else 40, episodes=512)
    if first:
        return config
    config.objective.policy.update(clip_high=0.28, dual_clip=10.0)
    config.components.segments = section(segments)
    config.reward.order_reward = section(rewards.order_reward)
    config.reward.repetition_penalty = section(rewards.repetition_penalty)
    config.filters.dynamic_sampling = section(advantages.dynamic_sampling)
    return config
