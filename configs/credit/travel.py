r"""Travel-v1: a check of the whole trip, of its bookings, or of both, and failed tasks again.

DeepTravel (2025), https://arxiv.org/abs/2509.21842 (from notes). "outcome": the trip alone is
checked, which need not exist; "turns": confirmed bookings pay 0.5 besides; "gate": the trip pays
only if the tools confirm all bookings; "replay": gate, and a quarter of the groups are tasks that
failed before; "noisy": gate, and each search is wrong about an offer with probability 0.2. GRPO.

    python -m launchers.train --config=configs/credit/travel.py:gate --workdir=runs/travel_gate

Ten seeds, two busy CPU cores, 5 minutes. Success: outcome 0.00 (0.98 of the trips are paid), turns
0.08, gate 0.83, replay 0.86, noisy 0.16 (README.md).
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section
from agentrl.methods.failed_tasks import failed_tasks, tasks_by_key
from agentrl.methods.turn_checks import turn_checks

VARIANTS = ("outcome", "turns", "gate", "replay", "noisy")


def get_config(variant: str = "gate") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = base_config()
    config.num_seeds = 10
    config.updates = 1000
    config.log_every = 20
    config.env = env_section("Travel-v1", noise=0.2 if variant == "noisy" else 0.0)
    config.policy = section(policies.mlp, hidden=(64, 64), critic="none")
    config.rollout = section(rollout.episodes, num_groups=16, group_size=8)
    config.advantage = section(advantages.grpo)
    config.components.turn_checks = section(turn_checks)
    if variant in ("outcome", "turns"):
        # Of "outcome" the checks are only counted.
        config.reward.turn_bonus = {"coefficient": 1.0 if variant == "turns" else 0.0}
    else:
        config.reward.verified_reward = {}
    if variant == "replay":
        config.sampler = section(tasks_by_key)
        config.components.failed_tasks = section(failed_tasks)
    config.learner.update(epochs=2, minibatches=4, normalize_advantage="batch")
    config.objective.entropy.weight = 0.01
    config.optimizer.learning_rate = 1e-3
    config.evaluation.update(every=1000, episodes=1024)
    return config
