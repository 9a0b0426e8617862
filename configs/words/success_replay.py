"""Tool calls in words where success is rare: stored successes replayed (ARPO-GUI), or DART's parts.

"replay": code dvlab-research/ARPO 7489ae3 (read); "filtered": of tasks that SFT solves. "dart":
https://arxiv.org/abs/2509.23866 (from notes), "dynamic" of it fewer attempts at what is solved.
"rare_sft", "rare_none" and so on: of three calls, paid for success alone.

    python -m launchers.train --config=configs/words/success_replay.py:sft --workdir=runs/calls_sft
    python -m launchers.train --config=configs/words/success_replay.py:replay \
        --workdir=runs/calls_replay --config.init_from=runs/calls_sft

Five seeds: SFT 0.05, none 0.20, replay 0.18, filtered 0.15, dynamic and dart 0.22, not told apart;
rare 0.03, 0.37, 0.65, 0.41: where success alone pays the replay learns (README.md).
"""

import ml_collections

from agentrl import rollout
from agentrl.config import check_variant, env_section, section
from agentrl.methods.curriculum import curriculum, tasks_by_number
from agentrl.methods.dynamic_rollouts import dynamic_rollouts
from agentrl.methods.success_replay import success_replay
from agentrl.methods.task_lists import solvable_tasks
from configs._shared import language
from configs.credit.curriculum import use_dart

RARE = ("rare_sft", "rare_none", "rare_replay", "rare_filtered")
VARIANTS = ("sft", "none", "replay", "filtered", "dynamic", "dart", *RARE)
TASKS = 32


def get_config(variant: str = "replay") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    rare, variant = variant in RARE, variant.removeprefix("rare_")
    first = variant == "sft"
    env = env_section("ToolCalls-v1", tools=3, arguments=3, needed=2 + rare, limit=5)
    if rare:
        env.partial = 0.0
    config = language.config_of(
        "sft" if first else "grpo",
        env,
        section(rollout.episodes, num_groups=8, group_size=8),
        section(rollout.contexts.whole),
        warm_updates=(35 if rare else 25) * first,
        updates=120,
    )
    config.num_seeds = 5
    config.log_every = 5 if first else 10
    config.reward = {}
    config.evaluation.update(every=config.updates, episodes=512)
    if first:
        return config
    config.sampler = section(tasks_by_number)
    if variant in ("none", "replay"):
        config.components.curriculum = section(curriculum, tasks=TASKS, floor=1.0)
    if variant == "filtered":
        config.components.solvable_tasks = section(solvable_tasks, tasks=TASKS, tries=64)
    if variant in ("replay", "filtered"):
        config.components.success_replay = section(success_replay, tasks=64)
    if variant in ("dynamic", "dart"):
        # The same number of episodes, in portions of two.
        config.rollout.update(num_groups=32, group_size=2)
        config.components.dynamic_rollouts = section(dynamic_rollouts, tasks=TASKS)
    if variant == "dart":
        use_dart(config, tasks=TASKS, first=5, least=3)
    return config
