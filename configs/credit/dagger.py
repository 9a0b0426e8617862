"""KeyDoor from 1,500 labels of the expert: in the policy's own states (DAgger), or in the expert's.

Ross, Gordon and Bagnell (2011), https://arxiv.org/abs/1011.0686 (recalled, not read). Rounds of
eight episodes every 20 updates until the labels are used up; "bc" has the expert act, "failures"
has only unsolved episodes labelled, "disagreements" keeps only turns in which the two differ.

    python -m launchers.train --config=configs/credit/dagger.py:dagger --workdir=runs/dagger

Five seeds, half a minute of processor time. Success of 1,024 tasks: dagger 0.949, bc 0.966,
disagreements 0.311, failures 0.497 (README.md).
"""

import ml_collections

from agentrl import losses, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section, term
from agentrl.methods.dagger import dagger

ARMS = {
    "dagger": {},
    "bc": {"decay": 1.0},
    "failures": {"keep": "failures"},
    "disagreements": {"keep": "disagreements"},
}
VARIANTS = tuple(ARMS)


def get_config(variant: str = "dagger") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = base_config()
    config.num_seeds = 5
    config.updates = 400
    config.log_every = 50
    config.env = env_section("KeyDoor-v1", rooms=3)
    config.policy = section(policies.mlp, hidden=(64, 64), critic="none")
    config.rollout = section(rollout.episodes, num_groups=16, group_size=8)
    config.objective.policy.weight = 0.0
    options = {"episodes": 8, "every": 20, "labels": 1500, "size": 2048} | ARMS[variant]
    config.components.dagger = section(dagger, **options)
    config.objective.imitation = term(losses.behaviour_cloning, source="dagger", during="rl")
    config.learner.update(epochs=1, minibatches=1, normalize_advantage="none")
    config.optimizer.learning_rate = 3e-3
    config.evaluation.update(every=400, episodes=1024)
    return config
