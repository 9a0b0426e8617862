"""KeyDoor where success is rare: stored successes, replayed or imitated (ARPO-GUI, SPEAR).

"replay": code dvlab-research/ARPO 7489ae3 (read), a stored success replaces an episode of a group
that failed; "filtered": of tasks that the first policy solves. https://arxiv.org/abs/2509.24107:
"rapo", the latest success, and solved tasks leave. https://arxiv.org/abs/2509.22601: "spear", good
episodes are imitated later; "spear_bonus" pays for turns at first. 32 tasks, drawn evenly.

    python -m launchers.train --config=configs/credit/success_replay.py:spear --workdir=runs/spear

Five seeds, 30 s. Mean success over the run: none 0.409, replay 0.437, spear 0.441, spear_bonus
0.006. Of 1,024 fresh tasks: none 0.53, replay 0.59, rapo 0.54, filtered 0.27 (README.md).
"""

import ml_collections

from agentrl import advantages, losses, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section, term
from agentrl.methods.curriculum import curriculum, tasks_by_number
from agentrl.methods.self_imitation import self_imitation
from agentrl.methods.success_replay import success_replay
from agentrl.methods.task_lists import pruned_tasks, solvable_tasks

VARIANTS = ("replay", "filtered", "rapo", "spear", "spear_bonus", "none")


def get_config(variant: str = "replay") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
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
    if variant == "filtered":
        # Tasks that the first policy solves at least once, then the replay of ARPO as well.
        del config.components.curriculum
        config.components.solvable_tasks = section(solvable_tasks, tasks=32, tries=64)
        config.components.solvable_tasks.update(terms=("policy", "entropy"), weights=(1.0, 0.01))
    if variant == "rapo":
        del config.components.curriculum
        config.components.pruned_tasks = section(pruned_tasks, tasks=32, at=0.9)
        config.components.success_replay = section(success_replay, tasks=64, per_task=1)
        config.components.success_replay.update(success=0.5, when="none", replaces="random")
        config.reweighting.live_group_scale = section(advantages.live_group_scale)
        config.learner.normalize_advantage = "none"
    if variant in ("replay", "filtered"):
        config.components.success_replay = section(success_replay, tasks=64)
    if variant.startswith("spear"):
        config.components.self_imitation = section(self_imitation, replay_until=50, calls_until=50)
        config.objective.self_imitation = term(losses.self_imitation, source="self_imitation")
    if variant == "spear_bonus":
        config.reward.call_bonus = {"per_call": 0.01}
    return config
