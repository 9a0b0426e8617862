r"""SharedBank-v1: which results of three parallel teams are written to the memory that all read.

Learning to Share (2026; reconstructed from a note on its equations): a controller admits or skips
each result. "usage": credit of an entry that was recalled; "usage_small": a tenth of it; "absence":
of the outcome less that of the same teams without the entry; "outcome": of the teams' outcome
alone. To compare: "all" and "nothing" admitted, which is no learning.

    python -m launchers.train --config=configs/teams/sharing.py:usage --workdir=runs/sharing

Five seeds, half a minute on two free CPU cores. Share of teams that succeed: usage 0.16,
usage_small 0.35, absence and outcome 0.37; all admitted 0.14, nothing 0.22, the expert 0.39
(README.md).
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section
from agentrl.methods.sharing import bank_credit

# Options of the credit, and the weight of an entry's own.
CREDITS = {
    "usage": ({"credit": "usage"}, 1.0),
    "usage_small": ({"bonus": 0.05, "cost": 0.01}, 1.0),
    "absence": ({"credit": "absence", "cost": 0.0}, 1.0),
    "outcome": ({}, 0.0),
}
FIXED = {"all": 1, "nothing": 0}
VARIANTS = (*CREDITS, *FIXED)


def get_config(variant: str = "usage") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    credit, weight = CREDITS.get(variant, CREDITS["outcome"])
    config = base_config()
    config.num_seeds = 5
    config.updates = 20 if variant in FIXED else 200
    config.log_every = 10
    config.env = env_section("SharedBank-v1", fixed=FIXED.get(variant, -1))
    config.policy = section(policies.mlp, hidden=(32,), critic="none")
    config.rollout = section(rollout.episodes, num_groups=32, group_size=8, mask_illegal=True)
    config.components.bank_credit = section(bank_credit, **credit)
    config.advantage = section(advantages.hrpo, edit_weight=weight, normalize="mean")
    config.learner.update(minibatches=1)
    config.objective.entropy.weight = 0.003
    config.optimizer.learning_rate = 1e-2
    return config
