r"""A chain of locked rooms by a planner and an executor: HiPER's hierarchical credit, or flat GAE.

HiPER (2026), https://arxiv.org/abs/2602.16165. "flat": one GAE per role along its own turns.
"hae": the executor's segment ends with the subgoal, bootstrapped with the planner's value. "roles",
"roles_frozen": one network per role, both trained, or the planner frozen. "switched" has a third
role that decides when to plan, "switched_flat" the same with one GAE per role.

    python -m launchers.train --config=configs/hierarchy/key_door.py:hae --workdir=runs/key_door_hae

Two CPU cores. Success over the run in five rooms (--config.env.rooms=5, 120 steps), five seeds:
0.396 with "hae", 0.370 with "flat", difference 0.026 [-0.113, 0.165]. More: README.md.
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, check_variant, env_section, roles_section, section

VARIANTS = ("hae", "flat", "roles", "roles_frozen", "switched", "switched_flat")


def advantage(method: str) -> ml_collections.ConfigDict:
    """The advantage section of a method, with equal rates."""
    if not method.endswith("flat"):
        switched = method == "switched"
        estimator = advantages.switched_hae_by_turn if switched else advantages.hae_by_turn
        return section(estimator, gamma=0.99, lam=0.95, subgoal_lam=0.95)
    return section(advantages.gae, gamma=0.99, lam=0.95)


def get_config(variant: str = "hae") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = base_config()
    config.num_seeds = 5
    config.updates = 120
    config.log_every = 10
    config.checkpoint.every = 10
    config.checkpoint.keep = 40
    name = "SwitchedKeyDoor-v1" if variant.startswith("switched") else "PlannedKeyDoor-v1"
    config.env = env_section(name, rooms=3)
    config.policy = section(policies.mlp, hidden=(64, 64), critic="separate")
    config.rollout = section(rollout.episodes, num_groups=64, group_size=1, mask_illegal=True)
    config.advantage = advantage(variant)
    config.objective.value.weight = 0.5
    # Not whitened, as HiPER's are: before the first successes whitening amplifies the critics'
    # noise, and policies settle on walking until the limit.
    config.learner.update(epochs=2, minibatches=4)
    config.objective.entropy.weight = 0.01
    config.optimizer.learning_rate = 1e-3
    if variant.startswith("roles"):
        # One network per role, with its own actions and optimizer; "frozen": the planner is
        # not trained.
        network = section(policies.mlp, hidden=(64, 64), critic="separate")
        train = ("executor",) if variant == "roles_frozen" else ("planner", "executor")
        config.policy = roles_section(train, planner=network, executor=network)
        config.optimizers = {"executor": {"learning_rate": 2e-3}}
    return config
