"""KeyDoor in words."""

import ml_collections

from agentrl import rollout
from agentrl.config import check_variant, env_section, section
from configs._shared import language

VARIANTS = ("sft",)


def get_config(variant: str = "sft") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = language.config_of(
        "sft",
        env_section("KeyDoor-v1", rooms=1, max_steps_in_episode=12),
        section(rollout.episodes, num_groups=16, group_size=4),
        section(rollout.contexts.whole),
        warm_updates=60,
        updates=100,
    )
    config.num_seeds = 5
    config.log_every = 10
    config.evaluation.update(every=10, episodes=256)
    return config
