r"""Dispatch-v1: which of five frozen workers has a task, learnt from outcomes that arrive later.

Symphony-Coord (2026): LinUCB over six features, of one file of another code base. At collection 150
each specialist has another one's skill, whatever it declares. "symphony": as read; "all": every
worker is a candidate; "forget": and outcomes fade; "eager", "eager_forget": a tenth of the bonus;
"pairs", "pairs_forget": and a feature per worker and kind. Others: "random", "fixed", "oracle".

    python -m launchers.train --config=configs/teams/symphony.py:all --workdir=runs/symphony

Five seeds, half a minute on two free CPU cores. Regret of an attempt before the change, right after
it, and at the end: symphony 0.05, 0.51, 0.31; all 0.03, 0.30, 0.10; forget 0.25, 0.20, 0.23;
eager_forget 0.03, 0.23, 0.02 (README.md).
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section
from agentrl.methods.routing import assigned_tasks, router

CHANGE, WORKERS, FORGETS = 150, 5, 0.95
ROUTERS = {
    "symphony": {},
    "all": {"candidates": WORKERS},
    "forget": {"candidates": WORKERS, "keep": FORGETS},
    "eager": {"candidates": WORKERS, "alpha": 0.1, "bound": 0.1},
    "eager_forget": {"candidates": WORKERS, "alpha": 0.1, "bound": 0.1, "keep": FORGETS},
    "pairs": {"candidates": WORKERS, "alpha": 0.1, "bound": 0.1, "contexts": "pairs"},
    "pairs_forget": {
        "candidates": WORKERS, "alpha": 0.1, "bound": 0.1, "contexts": "pairs", "keep": FORGETS,
    },
    "random": {"rule": "random"},
    "fixed": {"rule": "fixed:3"},
    "oracle": {"rule": "oracle"},
}  # fmt: skip
VARIANTS = tuple(ROUTERS)


def get_config(variant: str = "symphony") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = base_config()
    config.num_seeds = 5
    config.updates = 300
    config.log_every = 10
    config.env = env_section("Dispatch-v1", change=CHANGE)
    config.policy = section(policies.mlp, hidden=(32,), critic="none")
    config.rollout = section(rollout.episodes, num_groups=32, group_size=4)
    config.sampler = section(assigned_tasks)
    config.components.router = section(router, **ROUTERS[variant])
    config.advantage = section(advantages.grpo, normalize="mean")
    config.learner.update(minibatches=1)
    config.objective.entropy.weight = 0.01
    config.optimizer.learning_rate = 1e-2
    return config
