"""A chain of locked rooms in words: best-first search from subgoal to subgoal, or for the end.

BFS-Prover-V2 at inference, https://arxiv.org/abs/2509.06493 (from notes): a policy after few
updates of SFT, which reads the present observation alone; subgoals are what the expert sees.

    python -m launchers.train --config=configs/words/planned_search.py --workdir=runs/planned
    python -m launchers.evaluate --workdir=runs/planned --episodes=256 --search=nodes=128

Five seeds, two minutes of training and ten of search on two busy CPU cores: of 256 chains solved
with 256 replies each: planner 0.91, search 0.29, sampling 0.05 (README.md).
"""

import ml_collections

from agentrl import rollout
from agentrl.config import env_section, section
from configs._shared import language


def get_config() -> ml_collections.ConfigDict:
    config = language.config_of(
        "sft",
        env_section("KeyDoor-v1", rooms=4),
        section(rollout.episodes, num_groups=4, group_size=8),
        section(rollout.contexts.window, history=0),
        warm_updates=60,
        updates=0,
    )
    config.num_seeds = 5
    config.policy.update(width=32, layers=1, kv_heads=1, hidden=64)
    config.evaluation.update(every=60, episodes=256)
    config.learner.update(microbatch=None, lengths=1)
    return config
