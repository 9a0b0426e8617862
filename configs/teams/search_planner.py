r"""Research-v1 with a price of calls that varies: one planner for every trade-off, and its front.

The planner alone learns, beside expert workers and a fixed answerer (AI-SearchPlanner,
https://arxiv.org/abs/2508.20368), and is shown the price of its question. "gain": REINFORCE++ with
the gain over answering at once and over one search; "outcome": without it; "grpo": groups of 16
attempts at a question; "fixed": one price, --config.env.call_price=0.25.

    python -m launchers.train --config=configs/teams/search_planner.py:gain --workdir=runs/planner
    python -m launchers.front --workdirs=runs/planner --most_cost=6

Three seeds, two busy CPU cores, 11 minutes. Area of the front up to 6 calls: gain 4.71, outcome
4.74, grpo 4.74, a run per price 4.57 (README.md).
"""

import ml_collections

from agentrl import advantages, policies, rewards, rollout
from agentrl.config import base_config, check_variant, env_section, section
from agentrl.methods.counterfactual import counterfactual
from agentrl.methods.trade_off import trade_off

PRICES = (0.0, 0.1, 0.25, 0.4, 0.6)
VARIANTS = ("gain", "outcome", "grpo", "fixed")


def get_config(variant: str = "gain") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = base_config()
    config.num_seeds = 3
    config.updates = 150
    config.log_every = 15
    prices = {"call_price": 0.1} if variant == "fixed" else {"prices": PRICES}
    config.env = env_section("Research-v1", facts=(0, 3), **prices)
    config.policy = section(policies.mlp, hidden=(64, 64), critic="none")
    acting = {"num_groups": 512, "group_size": 1, "mask_illegal": True}
    config.advantage = section(advantages.reinforce_pp)
    if variant == "grpo":
        acting.update(num_groups=32, group_size=16)
        config.advantage = section(advantages.grpo, normalize="mean")
    if variant == "gain":
        config.rollout = section(
            counterfactual,
            side="planner",
            partners=("expert",),
            replacements=("envs.research.env.direct", "envs.research.env.naive"),
            draws=4,
            **acting,
        )
        config.reward.gain = section(rewards.answer_gain)
    else:
        config.rollout = section(rollout.episodes, side="planner", opponent="expert", **acting)
    config.components.trade_off = section(trade_off)
    config.learner.update(minibatches=4, normalize_advantage="batch")
    config.objective.entropy.weight = 0.01
    config.optimizer.learning_rate = 1e-3
    return config
