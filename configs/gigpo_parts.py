r"""Household in words, GiGPO divided by the standard deviation, and the same with one part changed.

Feng et al. (2025), https://arxiv.org/abs/2505.10978, divide on ALFWorld. Each preset changes one
part of `divided`; "grpo" and "grpo_mean" leave the step term out. One SFT, then all from it:

    p=configs/gigpo_parts.py
    python -m launchers.train --config=$p:sft --workdir=runs/parts_sft
    python -m launchers.sweep --workdir=runs/parts --configs=$p:divided,$p:mean,$p:no_penalty \
        --grid=init_from=runs/parts_sft

Two CPU cores, 3 minutes per preset of five seeds. Success: SFT 0.50, divided 0.48, not divided, or
without the penalty for illegal replies, 0.64; all of them: configs/README.md.
"""

import ml_collections

from agentrl import advantages
from agentrl.config import section
from agentrl.methods.gigpo_parts import clipped, partly_divided
from configs import household

METHODS = (
    *("sft", "divided", "mean", "step_divided", "episode_divided", "grpo", "grpo_mean"),
    *("no_penalty", "large_penalty", "epsilon", "clipped", "turn_statistics"),
    *("group_16", "not_whitened", "kl", "slow", "hot"),
)


def get_config(method: str = "divided") -> ml_collections.ConfigDict:
    if method not in METHODS:
        raise ValueError(f"configs/gigpo_parts.py:{method}: expected one of {', '.join(METHODS)}")
    config = household.get_config("sft" if method == "sft" else "gigpo")
    config.update(num_seeds=5, seed=100)
    config.evaluation.episodes = 1024
    if method == "sft":
        return config
    config.updates = 60
    config.warm_start.updates = 0
    config.evaluation.every = 60
    config.advantage.normalize = "mean" if method == "mean" else "std"
    if method in ("step_divided", "episode_divided"):
        config.advantage = section(partly_divided, divided=method.removesuffix("_divided"))
    if method in ("grpo", "grpo_mean"):
        how = "std" if method == "grpo" else "mean"
        config.advantage = section(advantages.grpo, normalize=how)
    if method == "no_penalty":
        config.reward.invalid_action_penalty.coefficient = 0.0
    if method == "large_penalty":
        config.reward.invalid_action_penalty.coefficient = 0.1
    if method == "epsilon":
        config.advantage.epsilon = 0.1
    if method == "clipped":
        config.reweighting.clipped = section(clipped)
    if method == "turn_statistics":
        config.advantage.statistics = "turn"
    if method == "group_16":
        config.rollout.update(num_groups=8, group_size=16)
    if method == "not_whitened":
        config.learner.normalize_advantage = "none"
    if method == "kl":
        config.objective.kl.weight = 0.05
    if method == "slow":
        config.optimizer.learning_rate = 1e-4
    if method == "hot":
        config.policy.temperature = 1.3
    return config
