r"""GuidedResearch-v1: a plan in advance is worth what it adds to executors that work without one.

Each plan is played by two frozen executors, the environment's expert and a novice (a random action
half of the time), with and without it, by the same keys (EAGLET, https://arxiv.org/abs/2510.05608).
"gain": reward of both executors' gains; "expert", "novice": of one's alone; "outcome": the expert
executor's success, "difference": less that without the plan. "filtered": SFT on own plans that harm
neither executor and help one; "filtered_expert": that help the expert; "unfiltered": on all.

    python -m launchers.train --config=configs/teams/eaglet.py:gain --workdir=runs/eaglet

Five seeds, 1 to 5 minutes on two busy CPU cores. Success of the expert and the novice: without a
plan 0.33, 0.26; outcome 0.529, 0.370; gain 0.547, 0.395; right plans 0.65, 0.53 (README.md).
"""

import ml_collections

from agentrl import advantages, losses, policies, rewards
from agentrl.config import base_config, check_variant, env_section, section, term
from agentrl.methods.counterfactual import counterfactual

GAINS = {"gain": (), "expert": (0,), "novice": (1,)}
FILTERS = {"filtered": (), "filtered_expert": (0,), "unfiltered": None}
VARIANTS = (*GAINS, "outcome", "difference", *FILTERS)


def get_config(variant: str = "gain") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = base_config()
    config.num_seeds = 5
    config.updates = 200
    config.log_every = 20
    config.env = env_section("GuidedResearch-v1")
    config.policy = section(policies.mlp, hidden=(64, 64), critic="none")
    config.rollout = section(
        counterfactual,
        side="planner",
        partners=("expert", "expert:0.5"),
        replacements=("envs.guided_research.env.silent",),
        num_groups=32,
        group_size=16,
        mask_illegal=True,
    )
    config.advantage = section(advantages.grpo, normalize="mean")
    if variant in GAINS:
        config.reward.gain = section(rewards.executor_gain, partners=GAINS[variant])
    if variant == "difference":
        config.reward.difference = section(rewards.difference)
    if variant in FILTERS:
        config.objective.policy = term(losses.behaviour_cloning)
        if FILTERS[variant] is not None:
            config.filters.helps = section(
                advantages.helps_all, partners=FILTERS[variant], strict=True
            )
    config.learner.update(minibatches=4)
    config.objective.entropy.weight = 0.01
    config.optimizer.learning_rate = 1e-3
    return config
