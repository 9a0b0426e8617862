r"""GuidedResearch-v1: a controller learns what to tell a frozen solver, by preference pairs.

Li et al. (2024), Matryoshka, https://arxiv.org/abs/2410.20749. The controller plans for an executor
that is not trained and errs by chance, asked four times; of each task's plans the better half is
paired with the worse. "dpo": against a reference that follows every 20 updates; "simpo": by mean
log-probabilities; "grpo": the same plans and scores without pairs. In words from eaglet_words.py's
SFT (--config.init_from): "dpo_words", "grpo_words".

    python -m launchers.train --config=configs/teams/matryoshka.py:dpo --workdir=runs/matryoshka

Five seeds, 2 to 6 minutes on two busy CPU cores. Success of the executor from 0.26 without a plan:
DPO 0.391, 0.367 if it is asked once, GRPO 0.365, SimPO 0.293 (README.md).
"""

import ml_collections

from agentrl import advantages, losses, policies, rewards
from agentrl.config import base_config, check_variant, section, term
from agentrl.methods.counterfactual import counterfactual
from agentrl.methods.halves import halves
from configs.teams import eaglet_words

VARIANTS = ("dpo", "simpo", "grpo", "dpo_words", "grpo_words")
SOLVER = "expert:0.5"


def get_config(variant: str = "dpo") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    method, _, words = variant.partition("_")
    config = _words() if words else _arrays()
    config.rollout = section(
        counterfactual,
        side="planner",
        partners=(SOLVER,) * 4,
        replacements=("envs.guided_research.silent",),
        num_groups=16 if words else 32,
        group_size=16,
        mask_illegal=not words,
    )
    if method == "grpo":
        config.reward.runs = section(rewards.mean_of_runs)
        return config
    config.components.halves = section(halves, by="runs")
    config.objective.policy.weight = 0.0
    # Beside a preference's small gradient the bonus would decide alone.
    config.objective.entropy.weight = 0.0
    if method == "dpo":
        config.objective.preference = term(losses.dpo, source="halves", beta=0.1, smoothing=0.1)
        config.reference.every = 20
    else:
        config.objective.preference = term(losses.simpo, source="halves")
    return config


def _arrays() -> ml_collections.ConfigDict:
    config = base_config()
    config.num_seeds, config.updates, config.log_every = 5, 200, 20
    config.env = eaglet_words.get_config("sft").env
    config.policy = section(policies.mlp, hidden=(64, 64), critic="none")
    config.advantage = section(advantages.grpo, normalize="mean")
    config.learner.update(minibatches=4)
    config.objective.entropy.weight = 0.01
    config.optimizer.learning_rate = 1e-3
    return config


def _words() -> ml_collections.ConfigDict:
    config = eaglet_words.get_config("outcome")
    config.num_seeds, config.updates, config.log_every = 3, 60, 20
    config.warm_start.updates = 0
    return config
