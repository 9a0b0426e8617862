"""Screens-v1 in words, Mobile-R1's stages: format, single steps of logged screens, whole tasks.

Mobile-R1 (2025), https://arxiv.org/abs/2506.20332 (from notes on the paper; no code). Stage "step"
is GRPO on single turns from screens on the expert's way, one action being right; "task" is GRPO on
episodes, from those steps. "only_task" leaves the steps out, "scratch" the format, too.

    python -m launchers.train --config=configs/words/mobile_r1.py --workdir=runs/mobile_r1

Five seeds, two CPU cores, 4 minutes in all. Success: format 0.23, task 0.28, only_task 0.30,
scratch 0.13: the steps gain nothing over as many updates on tasks (README.md).
"""

import ml_collections

from agentrl import rollout
from agentrl.config import env_section, section
from configs._shared import language

# Updates of a stage, and the stage that it starts from.
STAGES = {
    "format": (40, None),
    "step": (60, "format"),
    "task": (60, "step"),
    "only_task": (120, "format"),
    "scratch": (120, None),
}


def get_config() -> ml_collections.ConfigDict:
    return ml_collections.ConfigDict({"stages": {name: _stage(name) for name in STAGES}})


def _stage(name: str) -> ml_collections.ConfigDict:
    updates, start = STAGES[name]
    env = env_section("Screens-v1")
    if name == "step":
        env = env_section("envs.wrappers.SingleStep", base=env, depth=4)
    # 128 turns of single steps, where an episode is one, and some 1,000 of episodes.
    acting = section(rollout.episodes, num_groups=16, group_size=8)
    context = section(rollout.contexts.window, history=0)
    method = "sft" if name == "format" else "grpo"
    config = language.config_of(method, env, acting, context, warm_updates=0, updates=updates)
    config.num_seeds = 5
    config.updates = updates
    config.learner.update(microbatch=32, lengths=1)
    config.evaluation.update(every=updates, episodes=512)
    if start is not None:
        config.init_from = f"stage:{start}"
    if name == "format":
        config.warm_start.updates = updates
    return config
