"""A trading desk where HOLD is right on 80 % of the days: do GRPO, RLOO and PPO stop asking?

After AlphaQuanter (a summary was read; market and constants are ours).

    python -m launchers.train --config=configs/credit/trading_desk.py:grpo --workdir=runs/desk

Five seeds, two busy CPU cores: 1 minute. Yes, all three: every seed ends without a query (length
1.0, success 0.80, return 0.70), also with a third of the days HOLD and with free queries.
"""

import ml_collections

from agentrl import policies, rollout
from agentrl.config import base_config, check_variant, env_section, section
from configs._shared import methods

VARIANTS = ("grpo", "rloo", "ppo")


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
    methods.use(config, variant)
    config.learner.update(epochs=2, minibatches=4, normalize_advantage="batch")
    config.objective.entropy.weight = 0.003
    config.optimizer.learning_rate = 1e-3
    return config
