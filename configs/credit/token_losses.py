"""Coin with other losses of tokens: Clip-Cov, KL-Cov, AEPO; RAPO, DART, RoC; critics as in PPO-max.

https://arxiv.org/abs/2505.22617 (two), 2510.14545, 2509.24107, 2509.23866, 2307.04964, code
microsoft/rStar. The rest is coin.py:grpo without its entropy bonus; "ppo" has the clip alone.

    python -m launchers.train --config=configs/credit/token_losses.py:aepo --workdir=runs/aepo

Five seeds, two busy CPU cores: 20 s. Mean success over the run, and range at the end: AEPO 0.56
(0.97 to 0.99), Clip-Cov 0.49 (0.83 to 0.98), PPO's clip 0.50 (0.40 to 0.97), RAPO and DART 0.45
(0.4 to 0.98), RoC 0.59 (0.39 to 0.97) with twice the episodes, KL-Cov 0.02: without a clip it loses
its entropy in 20 updates. With a critic: PPO-max 0.53 (0.49 to 0.99), plain 0.52 (0.26 to 0.99),
trained first for 15 updates 0.55 (0.82 to 0.99). Seeds differ by more than these means.
"""

import ml_collections

from agentrl import advantages, losses
from agentrl.config import check_variant, section, term
from agentrl.methods.critic_first import critic_first
from agentrl.methods.reward_scaling import reward_scaling
from agentrl.methods.turn_entropy import turn_entropy
from configs.credit import coin

# Published shares. They are of the decisions of a minibatch, some hundreds here: one of them is
# taken. Clip-Cov with a share of 0.02 takes all that succeed by chance, and learns nothing.
REST = ("rapo", "dart", "roc")
WITH_CRITIC = ("ppo_max", "critic", "critic_first")
TERMS = {
    "clip_cov": term(losses.clip_cov),
    "kl_cov": term(losses.kl_cov),
    "aepo": term(losses.aepo),
    "ppo": term(losses.clipped_surrogate),
}
VARIANTS = (*TERMS, *REST, *WITH_CRITIC)


def get_config(variant: str = "kl_cov") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = coin.get_config("ppo" if variant in WITH_CRITIC else "grpo")
    config.num_seeds = 5
    config.updates = 150
    config.objective.policy = TERMS.get(variant, TERMS["ppo"])
    config.objective.entropy.weight = 0.0
    if variant == "rapo":
        config.reweighting.live_group_scale = section(advantages.live_group_scale)
        config.learner.normalize_advantage = "none"
    if variant == "dart":
        config.components.turn_entropy = section(turn_entropy)
        config.reweighting.uncertain_turns = section(advantages.uncertain_turns)
    if variant == "roc":
        # Twice the streams are collected, as many are learnt from.
        config.rollout.group_size = 16
        config.filters.roc = section(advantages.resample_on_correct, keep=8)
        config.filters.roc.when = "before"
    if variant == "ppo_max":
        config.components.reward_scaling = section(reward_scaling)
        config.reward.scaled_reward = {}
        config.objective.value = term(losses.clipped_value_loss, weight=0.5, clip=0.2)
    if variant == "critic_first":
        # UI-TARS-2's value pretraining.
        config.components.critic_first = section(critic_first, updates=15)
    return config
