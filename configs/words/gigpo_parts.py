r"""Household in words, GiGPO divided by the standard deviation, and the same with one part changed.

Feng et al. (2025), https://arxiv.org/abs/2505.10978, divide on ALFWorld. Each preset changes one
part of `divided`; "grpo" and "grpo_mean" leave the step term out. One SFT, then all from it:

    p=configs/words/gigpo_parts.py
    python -m launchers.train --config=$p:sft --workdir=runs/parts_sft
    python -m launchers.sweep --workdir=runs/parts --configs=$p:divided,$p:mean,$p:no_penalty \
        --grid=init_from=runs/parts_sft

Two CPU cores, 3 minutes per preset of five seeds. Success: SFT 0.50, divided 0.48, not divided, or
without the penalty for illegal replies, 0.64; all of them: README.md.
"""

import ml_collections

from agentrl import advantages
from agentrl.config import check_variant, section
from agentrl.methods.gigpo_parts import clipped, partly_divided
from configs.words import household

VARIANTS = (
    *("sft", "divided", "mean", "step_divided", "episode_divided", "grpo", "grpo_mean"),
    *("no_penalty", "large_penalty", "epsilon", "clipped", "turn_statistics"),
    *("group_16", "not_whitened", "kl", "slow"),
)


def get_config(variant: str = "divided") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = household.get_config("sft" if variant == "sft" else "gigpo")
    config.update(num_seeds=5, seed=100)
    config.evaluation.episodes = 1024
    if variant == "sft":
        return config
    config.updates = 60
    config.warm_start.updates = 0
    config.evaluation.every = 60
    config.advantage.normalize = "mean" if variant == "mean" else "std"
    if variant in ("step_divided", "episode_divided"):
        config.advantage = section(partly_divided, divided=variant.removesuffix("_divided"))
    if variant in ("grpo", "grpo_mean"):
        how = "std" if variant == "grpo" else "mean"
        config.advantage = section(advantages.grpo, normalize=how)
    if variant == "no_penalty":
        config.reward.invalid_action_penalty.coefficient = 0.0
    if variant == "large_penalty":
        config.reward.invalid_action_penalty.coefficient = 0.1
    if variant == "epsilon":
        config.advantage.epsilon = 0.1
    if variant == "clipped":
        config.reweighting.clipped = section(clipped)
    if variant == "turn_statistics":
        config.advantage.statistics = "turn"
    if variant == "group_16":
        config.rollout.update(num_groups=8, group_size=16)
    if variant == "not_whitened":
        config.learner.normalize_advantage = "none"
    if variant == "kl":
        config.objective.kl.weight = 0.05
    if variant == "slow":
        config.optimizer.learning_rate = 1e-4
    return config
