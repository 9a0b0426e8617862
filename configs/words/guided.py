"""FrozenLake in words with guided second attempts at tasks that failed (Agent-RLVR), or without.

https://arxiv.org/abs/2506.11425 (notes). "sft" teaches to follow a plan in the prompt; then the
policy acts without one. "guided": the plan is taken out of what is learnt; "kept": it stays; "dpo":
the second attempt against the first; "skill": the policy that reads it teaches the other (Skill-SD,
https://arxiv.org/abs/2604.10674).

    python -m launchers.train --config=configs/words/guided.py:sft --workdir=runs/guided_sft
    python -m launchers.train --config=configs/words/guided.py:guided --workdir=runs/guided \
        --config.init_from=runs/guided_sft

Five seeds, two busy CPU cores: 5 minutes. Success: 0.69 with the plan after SFT; without it none
0.244, guided 0.333, kept 0.241, dpo 0.242, skill 0.306. More in README.md.
"""

import ml_collections

from agentrl import losses, rollout
from agentrl.config import check_variant, env_section, section, term
from agentrl.methods.guided import guided
from agentrl.methods.skill_distillation import skill_teacher
from configs._shared import language
from configs._shared.language import lake_plan

VARIANTS = ("guided", "kept", "dpo", "skill", "none", "sft")


def get_config(variant: str = "guided") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    learns = variant != "sft"
    config = language.config_of(
        "grpo" if learns else "sft",
        env_section("FrozenLake-v1", size=4, slippery=False),
        section(rollout.episodes, num_groups=16, group_size=4),
        section(rollout.contexts.whole)
        if learns
        else section(rollout.contexts.whole, inject=lake_plan),
        warm_updates=0 if learns else 100,
        updates=100,
    )
    config.num_seeds = 5
    config.evaluation.every = 20
    if variant in ("guided", "kept", "dpo"):
        config.components.guided = section(guided, guidance=lake_plan, strip=variant != "kept")
    if variant == "dpo":
        config.objective.preference = term(losses.dpo, source="guided", during="rl", weight=0.1)
    elif variant in ("guided", "kept"):
        config.objective.imitation = term(
            losses.corrected_behaviour_cloning, source="guided", during="rl", weight=0.1
        )
    if variant == "skill":
        config.components.skill_teacher = section(skill_teacher, skill=lake_plan)
        config.objective.distillation = term(losses.skill_distillation, weight=0.1)
    return config
