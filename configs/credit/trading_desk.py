r"""A trading desk where HOLD is right on 80 % of the days: do GRPO, RLOO and PPO stop asking?

After AlphaQuanter (a summary was read; market and constants are ours). Yes, all three. "balanced",
then "skewed" from its parameters: GRPO that keeps asking.

    python -m launchers.train --config=configs/credit/trading_desk.py:balanced --workdir=runs/desk
    python -m launchers.train --config=configs/credit/trading_desk.py:skewed --workdir=runs/skewed \
        --config.init_from=runs/desk

Five seeds, two CPU cores: 1 minute each. grpo, rloo, ppo: 1.0 turns, success 0.80; skewed 0.845
(four seeds 0.84 to 0.87, one 0.80), README.md.
"""

import ml_collections

from agentrl import policies, rollout
from agentrl.config import base_config, check_variant, env_section, section
from configs._shared import methods

# Weights of the entropy at the start and at the end, in units of reward.
RAW = {"balanced": (0.1, 0.03), "skewed": (0.03, 0.003)}
VARIANTS = ("grpo", "rloo", "ppo", *RAW)


def get_config(variant: str = "grpo") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = base_config()
    config.num_seeds = 5
    config.updates = 600
    config.log_every = 20
    config.env = env_section("TradingDesk-v1", hold_share=0.8)
    critic = "separate" if variant == "ppo" else "none"
    config.policy = section(policies.mlp, hidden=(64, 64), critic=critic)
    config.rollout = section(rollout.episodes, num_groups=32, group_size=8)
    methods.use(config, variant if variant in methods.METHODS else "grpo")
    config.learner.update(epochs=2, minibatches=4, normalize_advantage="batch")
    config.objective.entropy.weight = 0.003
    config.optimizer.learning_rate = 1e-3
    if variant in RAW:
        # Advantages in units of reward, so that the entropy's weight has a meaning.
        config.advantage.normalize = "mean"
        config.learner.normalize_advantage = "none"
        first, last = RAW[variant]
        config.objective.entropy.update(weight=first, final_weight=last)
        config.optimizer.learning_rate = 3e-3
        config.updates = 300
        config.evaluation.update(every=300, episodes=1024)
    if variant == "balanced":
        config.env.hold_share = 1 / 3
    return config
