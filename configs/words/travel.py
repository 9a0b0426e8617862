r"""Travel-v1 in words: 40 updates of SFT, then GRPO with one check, with both, or with a queue.

DeepTravel (2025), https://arxiv.org/abs/2509.21842 (from notes): first a check of the trip, then of
each booking against the tools' answers, and tasks whose whole group failed are played again.
"outcome", "gate" and "replay" are as in configs/credit/travel.py.

    python -m launchers.train --config=configs/words/travel.py:gate --workdir=runs/travel_words

Five seeds, two busy CPU cores, half an hour. Success: SFT 0.04, outcome 0.18, gate 0.19, replay
0.19 (README.md).
"""

import ml_collections

from agentrl import rollout
from agentrl.config import check_variant, env_section, section
from agentrl.methods.failed_tasks import failed_tasks, tasks_by_key
from agentrl.methods.turn_checks import turn_checks
from configs._shared import language

VARIANTS = ("outcome", "gate", "replay")


def get_config(variant: str = "gate") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    env = env_section("Travel-v1")
    acting = section(rollout.episodes, num_groups=16, group_size=8)
    context = section(rollout.contexts.window, history=0)
    config = language.config_of("grpo", env, acting, context, warm_updates=40, updates=100)
    config.num_seeds = 5
    config.components.turn_checks = section(turn_checks)
    config.reward = ml_collections.ConfigDict()
    if variant == "outcome":
        # The checks are only counted.
        config.reward.turn_bonus = {"coefficient": 0.0}
    else:
        config.reward.verified_reward = {}
    if variant == "replay":
        config.sampler = section(tasks_by_key)
        config.components.failed_tasks = section(failed_tasks)
    config.learner.update(microbatch=64, lengths=1)
    config.evaluation.update(every=20, episodes=512)
    return config
