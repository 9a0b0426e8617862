r"""Research-v1 in words: one transformer plans and works, or looks for the facts alone.

"sft": imitation of the expert. "matpo": from there, workers inherit the planner's advantage
(arXiv:2510.04678); "m_grpo": rewards of the workers' own, 32 of their episodes per question
(arXiv:2511.13288); "solo": SoloResearch-v1 by GRPO. "both", "planner", "workers": an adapter per
role on a trained policy (--config.init_from=DIR of "sft"), all or that role's trained.

    python -m launchers.train --config=configs/teams/research_words.py:matpo --workdir=runs/words

Five seeds, two CPU cores, 2 minutes. Success: sft 0.50, matpo 0.94, solo 0.91, both 0.60, planner
0.58, workers 0.49 (README.md).
"""

import ml_collections

from agentrl import advantages, rollout
from agentrl.config import check_variant, env_section, section
from agentrl.methods.alignment import alignment
from configs._shared import language

ADAPTED = {"both": (0, 1), "planner": (0,), "workers": (1,)}
VARIANTS = ("matpo", "m_grpo", "solo", "sft", *ADAPTED)


def get_config(variant: str = "matpo") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    adapted, alone = variant in ADAPTED, variant == "solo"
    config = language.config_of(
        "sft" if variant == "sft" else "grpo",
        env_section("SoloResearch-v1" if alone else "Research-v1"),
        section(rollout.episodes, num_groups=8, group_size=8),
        section(rollout.contexts.window, history=0),
        # Five updates later imitation is as good as the expert; five earlier nothing succeeds, and
        # planners learn to ask nobody.
        warm_updates=0 if adapted else 25,
        updates=120,
    )
    config.num_seeds, config.log_every = 5, 5
    if not alone:
        config.advantage = section(advantages.matpo if variant == "matpo" else advantages.m_grpo)
    if variant == "m_grpo":
        config.reward.delegated_reward = {}
        config.components.alignment = section(alignment, target=32)
        config.reweighting.as_often = {}
    # Rows are single turns: a fourth of 64 episodes of 13 or 25.
    config.learner.update(microbatch=52 if alone else 50, lengths=1)
    if adapted:
        config.policy.update(lora_rank=8, lora_roles=2)
        config.filters.of_role = section(advantages.only_roles, roles=ADAPTED[variant])
        config.optimizer.learning_rate = 3e-3
    return config
