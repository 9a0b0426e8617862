"""Lakes in words that come again, with a bank of skills from the policy's own episodes (Skill-SD).

https://arxiv.org/abs/2604.10674 (notes). A policy that reads skills teaches itself, which acts
without: "bank", "latest" without the UCB rule, "frozen" as the run began, "warned" of what failed,
"weak" with the paper's weight; "plan": the expert's plan instead; "grpo": no teacher.

    python -m launchers.train --config=configs/words/guided.py:sft --workdir=runs/guided_sft
    python -m launchers.train --config=configs/words/skills.py:bank --workdir=runs/skills_bank \
        --config.init_from=runs/guided_sft

Five seeds twice, four minutes an arm; success on the maps: grpo 0.40, bank 0.39, plan 0.41,
frozen 0.17 (README.md).
"""

import ml_collections

from agentrl import losses, rollout
from agentrl.config import check_variant, env_section, section, term
from agentrl.methods.curriculum import curriculum, tasks_by_number
from agentrl.methods.skill_distillation import skill_bank, skill_teacher
from configs._shared import language
from configs._shared.language import lake_plan

VARIANTS = ("bank", "latest", "frozen", "warned", "weak", "plan", "grpo")
TASKS = 16


def get_config(variant: str = "bank") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = language.config_of(
        "grpo",
        env_section("FrozenLake-v1", size=4, slippery=False),
        section(rollout.episodes, num_groups=8, group_size=8),
        section(rollout.contexts.whole),
        warm_updates=0,
        updates=100,
    )
    config.num_seeds = 5
    config.optimizer.learning_rate = 1e-3
    config.evaluation.every = config.updates
    # Each task is drawn evenly.
    config.sampler = section(tasks_by_number)
    config.components.curriculum = section(curriculum, tasks=TASKS, floor=1.0)
    if variant == "grpo":
        return config
    weight = 0.001 if variant == "weak" else 0.1
    config.objective.distillation = term(losses.skill_distillation, weight=weight)
    if variant == "plan":
        config.components.skill_teacher = section(skill_teacher, skill=lake_plan)
        return config
    # The expert's plans, which SFT taught to read, have six commands at most.
    config.components.skill_bank = section(skill_bank, tasks=TASKS, longest=6)
    config.objective.distillation.scale = "skill_read"
    if variant == "latest":
        config.components.skill_bank.rule = "latest"
    elif variant == "frozen":
        config.components.skill_bank.every = config.updates
    elif variant == "warned":
        config.components.skill_bank.warning = "O"
    return config
