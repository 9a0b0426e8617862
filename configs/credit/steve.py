"""ToolCalls-v1 by KTO: single turns that a judge calls good or bad, or episodes by their success.

STEVE (2025), https://arxiv.org/abs/2503.12532. "progress", "expert", "continuations" and "critic",
the policy's own, are judges of turns (config.rollout.judge), "outcome" is the success of episodes.

    python -m launchers.train --config=configs/credit/steve.py:expert --workdir=runs/steve

Five seeds, two busy CPU cores: two minutes. Success of 512 tasks: expert 0.59, continuations 0.26,
progress 0.14, critic and outcome 0.00, GRPO on the reward 0.76 (README.md).
"""

import ml_collections

from agentrl import advantages, losses, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section, term
from agentrl.methods.labelled import labelled

# The judge of the turns; None: episodes by their success.
JUDGES = {
    "progress": "progress",
    "expert": "expert",
    "continuations": "continuations:4",
    "critic": "critic",
    "outcome": None,
}
VARIANTS = (*JUDGES, "grpo")


def get_config(variant: str = "progress") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = base_config()
    config.num_seeds = 5
    config.updates = 100
    config.log_every = 20
    config.env = env_section("ToolCalls-v1")
    config.policy = section(policies.mlp, hidden=(64, 64), critic="none")
    config.rollout = section(rollout.episodes, num_groups=16, group_size=16)
    config.advantage = section(advantages.grpo)
    config.optimizer.learning_rate = 3e-3
    config.learner.epochs = 4
    config.evaluation.update(every=100, episodes=512)
    if variant == "grpo":
        return config
    judge = JUDGES[variant]
    if judge is not None:
        config.rollout.judge = judge
    config.components.labelled = section(labelled, by="success" if judge is None else "judgement")
    config.objective.policy.weight = 0.0
    if judge == "critic":
        # Of use to the critic alone: its targets.
        config.policy.critic = "separate"
        config.advantage = section(advantages.gae, gamma=1.0, lam=0.95)
        config.objective.value.weight = 0.5
    # A log-ratio is of one action: with the beta of whole texts, 0.1, nothing holds the policy.
    config.objective.kto = term(losses.kto, source="labelled", beta=3.0, balanced=True)
    # The reference follows: each batch is compared with the policy that sampled it.
    config.reference.every = 1
    return config
