"""Questions to search for: GRPO, RAPO without, and RAPO with its steerable reward.

Fathom-DeepResearch (2025), https://arxiv.org/abs/2509.24107. "sft" of an expert whose search is a
random one 3 times in 10; then 256 tasks that come again: "grpo", "rapo" (solved tasks leave, the
latest success is replayed, groups with a spread weigh more), "steerable" (its reward as well).

    p=configs/words/rapo.py
    python -m launchers.train --config=$p:sft --workdir=runs/rapo_sft
    python -m launchers.train --config=$p:steerable --workdir=runs/rapo_steerable \
        --config.init_from=runs/rapo_sft

Five seeds, success: SFT 0.699, grpo 0.872, rapo 0.718, steerable 0.765: not told apart.
"""

import ml_collections

from agentrl import advantages, rewards, rollout
from agentrl.config import check_variant, env_section, section
from agentrl.methods.curriculum import curriculum, tasks_by_number
from agentrl.methods.lookups import lookups
from agentrl.methods.success_replay import success_replay
from agentrl.methods.task_lists import pruned_tasks
from configs._shared import language

VARIANTS = ("steerable", "rapo", "grpo", "sft")
TASKS = 256


def get_config(variant: str = "steerable") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    first = variant == "sft"
    config = language.config_of(
        "sft" if first else "grpo",
        env_section(
            "SearchQA-v1", objectives=2, entities=20, relations=4, max_hops=1,
            max_steps_in_episode=8,
        ),
        section(rollout.episodes, num_groups=8, group_size=8),
        section(rollout.contexts.window, history=1, keep_first=True),
        warm_updates=240 if first else 0,
        updates=100,
    )  # fmt: skip
    config.num_seeds = 5
    config.evaluation.update(every=config.updates, episodes=512)
    config.learner.update(microbatch=None, lengths=1)
    if first:
        config.expert.noise = 0.3
        return config
    config.optimizer.learning_rate = 1e-3
    config.sampler = section(tasks_by_number)
    if variant == "steerable":
        config.components.lookups = section(lookups)
        config.reward.steerable_reward = section(rewards.steerable_reward)
    else:
        weights = {"format_weight": 0.1, "tool_weight": 0.0}
        config.reward.tool_use_reward = section(rewards.tool_use_reward, **weights)
    if variant == "grpo":
        config.components.curriculum = section(curriculum, tasks=TASKS, floor=1.0)
    else:
        config.components.pruned_tasks = section(pruned_tasks, tasks=TASKS, at=0.9)
        config.components.success_replay = section(success_replay, tasks=TASKS, per_task=1)
        config.components.success_replay.update(success=0.5, when="none", replaces="random")
        config.reweighting.live_group_scale = section(advantages.live_group_scale)
        config.learner.normalize_advantage = "none"
    return config
