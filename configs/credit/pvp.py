"""Two locked rooms without rewards, from an overseer that takes over where the policy errs (PVP).

Peng et al. (2023), https://arxiv.org/abs/2502.03369; code metadriverse/pvp cace7d1 (read). "labels"
leaves out the regression that spreads the values, "bc" clones the interventions, "one_buffer" draws
the overseer's turns as often as they are, and in "half" it watches every second episode.

    python -m launchers.train --config=configs/credit/pvp.py:pvp --workdir=runs/pvp

Five seeds, 400 watched episodes each, under a minute of processor time. Success of 512 tasks: pvp
0.85, one_buffer 0.85, half 0.59, bc 0.78 (README.md).
"""

import ml_collections

from agentrl import losses, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section, term
from agentrl.methods.pvp import pvp

ARMS = {
    "pvp": {},
    "labels": {"propagation": 0.0},
    "bc": {"steps": 0},
    "one_buffer": {"buffers": "one"},
    "half": {"watched": 0.5},
}
VARIANTS = tuple(ARMS)


def get_config(variant: str = "pvp") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = base_config()
    config.num_seeds = 5
    config.updates = 100
    config.log_every = 10
    config.env = env_section("KeyDoor-v1", rooms=2)
    config.policy = section(policies.mlp, hidden=(64, 64), critic="none")
    config.rollout = section(rollout.episodes, num_groups=16, group_size=8)
    config.objective.policy.weight = 0.0
    config.components.pvp = section(pvp, **ARMS[variant])
    if variant == "bc":
        config.objective.actor = term(
            losses.behaviour_cloning, source="pvp", scale="intervened", during="rl"
        )
    else:
        config.objective.actor = term(losses.boltzmann_imitation, source="pvp", temperature=0.1)
    config.learner.update(epochs=1, minibatches=4, normalize_advantage="none")
    config.optimizer.learning_rate = 3e-3
    config.evaluation.update(every=20, episodes=512)
    return config
