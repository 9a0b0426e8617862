"""KeyDoor with few tasks: a stored success replaces an episode of each group that failed.

ARPO for GUI agents, code dvlab-research/ARPO 7489ae3 (read). 32 tasks, drawn evenly.

    python -m launchers.train --config=configs/success_replay.py:replay --workdir=runs/replay

Three seeds, two busy CPU cores: 1 minute. Mean success over the run, replayed episodes not counted:
replay 0.39, none 0.37; at the end 0.70, 0.74, 0.86 and 0.80, 0.72, 0.72: no difference.
"""

import ml_collections

from agentrl import advantages, losses, policies, rollout
from agentrl.config import base_config, env_section, section, term
from agentrl.methods.curriculum import curriculum, tasks_by_number
from agentrl.methods.self_imitation import self_imitation
from agentrl.methods.success_replay import success_replay

METHODS = ("replay", "spear", "spear_bonus", "none")


def get_config(method: str = "replay") -> ml_collections.ConfigDict:
    if method not in METHODS:
        raise ValueError(f"configs/success_replay.py:{method}: expected one of {METHODS}")
    config = base_config()
    config.num_seeds = 5
    config.updates = 100
    config.log_every = 10
    config.env = env_section("KeyDoor-v1", rooms=2)
    config.policy = section(policies.mlp, hidden=(64, 64), critic="none")
    config.rollout = section(rollout.episodes, num_groups=16, group_size=8)
    # 32 tasks that come again, drawn evenly.
    config.sampler = section(tasks_by_number)
    config.components.curriculum = section(curriculum, tasks=32, floor=1.0)
    config.advantage = section(advantages.grpo)
    config.learner.update(epochs=2, minibatches=4, normalize_advantage="batch")
    config.objective.entropy.weight = 0.01
    config.optimizer.learning_rate = 1e-3
    if method == "replay":
        config.components.success_replay = section(success_replay, tasks=64)
    if method.startswith("spear"):
        config.components.self_imitation = section(self_imitation, replay_until=50, calls_until=50)
        config.objective.self_imitation = term(losses.self_imitation, source="self_imitation")
    if method == "spear_bonus":
        config.reward.call_bonus = {"per_call": 0.01}
    return config
