r"""GuidedResearch-v1: a controller learns what to tell a frozen solver, by preference pairs.

Li et al. (2024), Matryoshka, https://arxiv.org/abs/2410.20749. The controller plans for an executor
that is not trained and errs by chance, asked four times; of each task's plans the better half is
paired with the worse. "dpo": against a reference that follows every 20 updates; "simpo": by mean
log-probabilities; "grpo": the same plans and scores without pairs.

    python -m launchers.train --config=configs/teams/matryoshka.py:dpo --workdir=runs/matryoshka

Five seeds, 2 to 6 minutes on two busy CPU cores. Success of the executor from 0.26 without a plan:
DPO 0.391, 0.367 if it is asked once, GRPO 0.391, SimPO 0.293 (README.md).
"""

import ml_collections

from agentrl import advantages, losses, policies, rewards
from agentrl.config import base_config, check_variant, env_section, section, term
from agentrl.methods.counterfactual import counterfactual
from agentrl.methods.halves import halves

VARIANTS = ("dpo", "simpo", "grpo")
SOLVER = "expert:0.5"


def get_config(variant: str = "dpo") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = base_config()
    config.num_seeds, config.updates, config.log_every = 5, 200, 20
    config.env = env_section("GuidedResearch-v1")
    config.policy = section(policies.mlp, hidden=(64, 64), critic="none")
    config.rollout = section(
        counterfactual,
        side="planner",
        partners=(SOLVER,) * 4,
        replacements=("envs.guided_research.env.silent",),
        num_groups=32,
        group_size=16,
        mask_illegal=True,
    )
    config.advantage = section(advantages.grpo, normalize="mean")
    config.learner.update(minibatches=4)
    config.optimizer.learning_rate = 1e-3
    if variant == "grpo":
        config.reward.runs = section(rewards.mean_of_runs)
        config.objective.entropy.weight = 0.01
        return config
    config.components.halves = section(halves, by="runs")
    # Without a bonus of entropy: beside a preference's small gradient it would decide alone.
    config.objective.policy.weight = 0.0
    if variant == "dpo":
        config.objective.preference = term(losses.dpo, source="halves", beta=0.1, smoothing=0.1)
        config.reference.every = 20
    else:
        config.objective.preference = term(losses.simpo, source="halves")
    return config
