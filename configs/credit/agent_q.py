"""Coin-v1 by preferences between turns of search trees (Agent Q), between episodes, or GRPO.

Putta et al. (2024), Agent Q, https://arxiv.org/abs/2408.07199.

    python -m launchers.train --config=configs/credit/agent_q.py:agent_q --workdir=runs/agent_q
"""

import ml_collections

from agentrl import advantages, losses, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section, term
from agentrl.methods.pairs import pairs
from agentrl.methods.siblings import siblings
from agentrl.methods.trees import trees

VARIANTS = ("agent_q", "critic", "tree_dpo", "dpo", "tree_grpo", "grpo")


def get_config(variant: str = "agent_q") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = base_config()
    config.num_seeds = 5
    config.updates = 300
    config.log_every = 10
    config.env = env_section("Coin-v1", quest_length=5, distractors=2, max_steps_in_episode=20)
    critic = "separate" if variant == "critic" else "none"
    config.policy = section(policies.mlp, hidden=(64, 64), critic=critic)
    sizes = {"num_groups": 16, "group_size": 8}
    grows = variant in ("agent_q", "critic", "tree_dpo", "tree_grpo")
    search = section(trees, **sizes, rule="uct", width=2, together=2)
    config.rollout = search if grows else section(rollout.episodes, **sizes)
    config.advantage = section(advantages.grpo)
    config.learner.epochs = 2
    config.learner.minibatches = 4
    config.learner.normalize_advantage = "batch"
    config.optimizer.learning_rate, config.objective.entropy.weight = 6e-3, 0.01
    if variant == "critic":
        config.advantage = section(advantages.gae, gamma=0.95, lam=0.95)
        config.objective.value.weight = 0.5
    if variant in ("agent_q", "critic"):
        config.components.siblings = section(siblings, alpha=0.5 if critic == "separate" else 1.0)
        config.objective.policy.weight = 0.0
        config.objective.dpo = term(losses.behaviour_dpo, source="siblings")
    if variant in ("dpo", "tree_dpo"):
        config.components.pairs = section(pairs)
        config.objective.policy.weight = 0.0
        config.objective.dpo = term(losses.behaviour_dpo, source="pairs")
    return config
