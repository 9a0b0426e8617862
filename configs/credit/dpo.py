"""FrozenLake by preferences between the policy's own episodes: iterated DPO, KTO, or GRPO.

Xiong et al. (2024), Multi-turn iterative preference learning, https://arxiv.org/abs/2409.02392. DPO
has one right and one wrong episode per task, KTO every episode; the reference follows.

    python -m launchers.train --config=configs/credit/dpo.py:dpo --workdir=runs/dpo

Three seeds, two busy CPU cores: 1 minute. Success at the end: DPO 0.71, 0.71, 0.70; KTO 0.76, 0.75,
0.73; GRPO 0.75, 0.78, 0.76. Mean over the run: 0.50, 0.68 and 0.69. KTO's failures outnumber its
successes ten to one at first: with equal weights it learns nothing (0.09).
"""

import ml_collections

from agentrl import advantages, losses, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section, term
from agentrl.methods.labelled import labelled
from agentrl.methods.pairs import pairs

VARIANTS = ("dpo", "kto", "grpo")


def get_config(variant: str = "dpo") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = base_config()
    config.num_seeds = 3
    config.updates = 200
    config.log_every = 20
    config.env = env_section("FrozenLake-v1", slippery=False)
    config.policy = section(policies.mlp, hidden=(64, 64), critic="none")
    config.rollout = section(rollout.episodes, num_groups=32, group_size=8)
    config.advantage = section(advantages.grpo)
    config.optimizer.learning_rate = 3e-3
    config.learner.epochs = 4
    if variant == "kto":
        config.components.labelled = section(labelled)
        config.objective.policy.weight = 0.0
        config.objective.kto = term(losses.kto, source="labelled", desirable_weight=10.0)
        config.reference.every = 5
    if variant == "dpo":
        config.components.pairs = section(pairs)
        config.objective.policy.weight = 0.0
        config.objective.dpo = term(losses.dpo, source="pairs")
        # The reference follows: each batch is compared with the policy that sampled it.
        config.reference.every = 1
    return config
