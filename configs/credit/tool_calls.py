"""ToolCalls-v1: three of 24 calls in any order. Credit by the outcome, or for each call.

MatchTIR (2026), https://arxiv.org/abs/2601.10712 (code read): a call's reward is its similarity to
the reference call that it is matched with; "dual" takes the episode and the turn in equal parts,
"episode" and "turn" one of them. "outcome" is GRPO on the F1 of the calls alone. "greedy" (the
released matching), "soft" (optimal transport) and "punished" (-0.5 for a call without a match)
change "dual".

    python -m launchers.train --config=configs/credit/tool_calls.py:dual --workdir=runs/dual

Five seeds, two CPU cores: 30 s each. Success of 1,024 requests: dual 0.97, turn 0.97, greedy 0.97,
soft 0.93, outcome 0.87, episode 0.87, punished 0.85 (README.md).
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section
from agentrl.methods.call_matching import call_matching

# Options of the matching, and the weight of the turn.
CALLS = {
    "dual": ({}, 0.5),
    "episode": ({}, 0.0),
    "turn": ({}, 1.0),
    "greedy": ({"assignment": "greedy"}, 0.5),
    "soft": ({"assignment": "soft"}, 0.5),
    "punished": ({"unmatched": -0.5}, 0.5),
}
VARIANTS = ("outcome", *CALLS)


def get_config(variant: str = "dual") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = base_config()
    config.num_seeds = 5
    config.updates = 300
    config.log_every = 30
    config.env = env_section("ToolCalls-v1")
    config.policy = section(policies.mlp, hidden=(64, 64), critic="none")
    config.rollout = section(rollout.episodes, num_groups=16, group_size=16)
    config.advantage = section(advantages.grpo)
    config.learner.update(minibatches=4)
    config.optimizer.learning_rate = 1e-3
    config.evaluation.update(every=300, episodes=1024)
    if variant in CALLS:
        matching, weight = CALLS[variant]
        config.components.call_matching = section(call_matching, **matching)
        config.reward.turn_bonus = {"coefficient": 1.0}
        config.advantage = section(advantages.dual_level, turn_weight=weight)
    return config
