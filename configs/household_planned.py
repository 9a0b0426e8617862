"""Household-v1 in words by a planner and an executor in one transformer: HAE, or flat GAE.

HiPER (2026), https://arxiv.org/abs/2602.16165, trained models of 1.5B and 7B parameters on ALFWorld
with three spans a turn (switch, subgoal, action); here the planner's turns come when a subgoal is
reached, and one small policy, taught by the expert's episodes, plays both.

    python -m launchers.train --config=configs/household_planned.py:hae --workdir=runs/planned_hae
"""

import ml_collections

from agentrl import rollout
from agentrl.training.config import env_section, section
from configs import key_door, language


def get_config(method: str = "hae") -> ml_collections.ConfigDict:
    """ "sft" stops after the warm start, for methods that start from the same."""
    config = language.config_of(
        "household_planned.py",
        "sft" if method == "sft" else "ppo",
        env_section("PlannedHousehold-v1"),
        section(rollout.conversation, num_groups=16, group_size=8, context="window", history=0),
        warm_updates=400,
        updates=120,
    )
    config.policy = language.policy(critic="shared")
    config.advantage = key_door.advantage(
        "household_planned.py", "hae" if method == "sft" else method
    )
    # Rows are single turns. The two levels are whitened by themselves.
    config.learner.update(microbatch=64, lengths=1, normalize_advantage="role")
    return config
