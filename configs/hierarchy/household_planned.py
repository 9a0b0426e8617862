r"""Household-v1 in words by a planner and an executor in one transformer: HAE, or flat GAE.

HiPER (2026), https://arxiv.org/abs/2602.16165. The planner acts whenever a subgoal is reached.
"sft" ends after SFT; the others continue from it with --config.init_from=DIRECTORY
--config.warm_start.updates=0.

    python -m launchers.train --config=configs/hierarchy/household_planned.py:hae \
        --workdir=runs/planned_hae

Two CPU cores. Expected success of seeds 100 to 102: 0.417, 0.641, 0.510 after SFT; 120 updates
later 0.639, 0.779, 0.769 with "hae" and 0.734, 0.797, 0.771 with "flat": no gain by HAE.
"""

import ml_collections

from agentrl import rollout
from agentrl.config import check_variant, env_section, section
from configs._shared import language
from configs.hierarchy import key_door

VARIANTS = ("hae", "flat", "sft")


def get_config(variant: str = "hae") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    learns = variant != "sft"
    config = language.config_of(
        "ppo" if learns else "sft",
        env_section("PlannedHousehold-v1"),
        section(rollout.episodes, num_groups=16, group_size=8),
        section(rollout.contexts.window, history=0),
        warm_updates=400,
        updates=120,
    )
    # The critic is part of the policy from which the methods start.
    config.policy = language.policy(critic="shared")
    config.objective.value.weight = 0.5
    config.advantage = key_door.advantage(variant if learns else "hae")
    # Rows are single turns. The two levels are whitened separately, as in HiPER's recipe.
    config.learner.update(microbatch=64, lengths=1, normalize_advantage="role")
    return config
