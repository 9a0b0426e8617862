"""FrozenLake by preferences between turns of search trees (Agent Q), between episodes, or GRPO.

Putta et al. (2024), Agent Q, https://arxiv.org/abs/2408.07199. "agent_q": UCT, and DPO between
turns that left the same node; "critic": their value is half a critic's; "refuel": the difference of
two futures regressed (https://arxiv.org/abs/2410.04612); "dpo": DPO between whole episodes of plain
groups; "tree_grpo": GRPO over the trees, each turn learnt from once.

    python -m launchers.train --config=configs/credit/agent_q.py:agent_q --workdir=runs/agent_q

Five seeds, two busy CPU cores: 1 to 5 minutes. Success at 127,000 sampled turns, and its mean until
then: GRPO 0.740, 0.674; over trees 0.744, 0.690; REFUEL 0.748, 0.598; DPO 0.706, 0.575; Agent Q
0.702, 0.564; with a critic 0.260, 0.230 (README.md).
"""

import ml_collections

from agentrl import advantages, losses, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section, term
from agentrl.methods.pairs import pairs
from agentrl.methods.siblings import own_turns, siblings
from agentrl.methods.trees import trees

VARIANTS = ("agent_q", "critic", "refuel", "dpo", "tree_grpo", "grpo")


def get_config(variant: str = "agent_q") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = base_config()
    config.num_seeds = 5
    config.updates = 200
    config.log_every = 10
    config.evaluation.update(every=10, episodes=256)
    config.env = env_section("FrozenLake-v1", slippery=False)
    critic = "separate" if variant == "critic" else "none"
    config.policy = section(policies.mlp, hidden=(64, 64), critic=critic)
    sizes = {"num_groups": 32, "group_size": 8}
    grows = variant in ("agent_q", "critic", "tree_grpo")
    search = section(trees, **sizes, rule="uct", width=2, together=2)
    config.rollout = search if grows else section(rollout.episodes, **sizes)
    config.advantage = section(advantages.grpo)
    config.optimizer.learning_rate = 3e-3
    config.learner.epochs = 4
    if variant == "tree_grpo":
        config.reweighting.shared_prefix = section(advantages.shared_prefix)
        config.components.own_turns = section(own_turns)
    if variant == "critic":
        config.advantage = section(advantages.gae, gamma=1.0, lam=0.95)
        config.objective.value.weight = 0.5
    if variant in ("agent_q", "critic"):
        alpha = 0.5 if variant == "critic" else 1.0
        config.components.siblings = section(siblings, alpha=alpha, pairs=16)
        config.objective.policy.weight = 0.0
        config.objective.dpo = term(losses.behaviour_dpo, source="siblings", beta=1.0)
    if variant == "refuel":
        # Two episodes of a task that part at any turn, and as many episodes.
        config.rollout = section(trees, num_groups=128, group_size=2, rule="uniform")
        config.components.siblings = section(siblings, pairs=1, ties=True)
        config.objective.policy.weight = 0.0
        config.objective.dpo = term(losses.refuel, source="siblings")
    if variant == "dpo":
        config.components.pairs = section(pairs)
        config.objective.policy.weight = 0.0
        config.objective.dpo = term(losses.behaviour_dpo, source="pairs", beta=1.0)
    return config
