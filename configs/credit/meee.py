"""One locked room by critics with a replay, and an ensemble of models for them (MEEE).

Yao et al. (2021), https://arxiv.org/abs/2107.01825; code YaoYao1995/MEEE c4d6612 (its arithmetic).
"plain" imagines nothing and chooses by itself, "weighted" imagines with confidence, "imagined"
without; "meee" also takes the best of 20 candidates.

    python -m launchers.train --config=configs/credit/meee.py:meee --workdir=runs/meee

Five seeds, 1,200 episodes, a minute or two of processor time. Success of 512 tasks: plain 0.66,
with SAC's own loss of the policy 0.79, imagined 0.39, meee 0.00 (README.md).
"""

import ml_collections

from agentrl import losses, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section, term
from agentrl.methods.meee import meee

ARMS = {
    "meee": {},
    "plain": {"imagined": 0, "optimism": 0.0},
    "plain_soft": {"imagined": 0, "optimism": 0.0},
    "imagined": {"optimism": 0.0, "trust": 0.0},
    "weighted": {"optimism": 0.0},
    "two_candidates": {"optimism": 10.0},
}
VARIANTS = tuple(ARMS)


def get_config(variant: str = "meee") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = base_config()
    config.num_seeds = 5
    config.updates = 150
    config.log_every = 10
    config.env = env_section("KeyDoor-v1", rooms=1)
    config.policy = section(
        policies.scored_mlp, candidates=2 if variant == "two_candidates" else 20, hidden=(64, 64)
    )
    config.rollout = section(rollout.episodes, num_groups=8, group_size=1)
    # The policy's own episodes only fill the replay.
    config.objective.policy.weight = 0.0
    config.components.meee = section(meee, temperature=0.02, **ARMS[variant])
    loss = losses.soft_policy_loss if variant == "plain_soft" else losses.boltzmann_imitation
    config.objective.actor = term(loss, source="meee", scale="confidence", temperature=0.02)
    config.learner.update(epochs=1, minibatches=4, normalize_advantage="none")
    config.optimizer.learning_rate = 1e-3
    config.evaluation.update(every=150, episodes=512)
    return config
