"""ToolCalls-v1: three of 24 calls in any order. Credit by the outcome, or for each call.

MatchTIR (2026), https://arxiv.org/abs/2601.10712 (code read): a call's reward is its similarity to
the reference call that it is matched with; "dual" takes the episode and the turn in equal parts,
"episode" and "turn" one of them. "outcome" is GRPO on the F1 of the calls alone. "greedy" (the
released matching), "soft" (optimal transport) and "punished" (-0.5 for a call without a match)
change "dual". `_words`: by a transformer that reads each turn by itself, after SFT.

    python -m launchers.train --config=configs/credit/tool_calls.py:dual --workdir=runs/dual

Five seeds, two CPU cores: 30 s each. Success of 1,024 requests: dual 0.97, turn 0.97, greedy 0.97,
soft 0.93, outcome 0.87, episode 0.87, punished 0.85 (README.md). The words have no result yet.
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section
from agentrl.methods.call_matching import call_matching
from configs._shared import language

# Options of the matching, and the weight of the turn.
CALLS = {
    "dual": ({}, 0.5),
    "episode": ({}, 0.0),
    "turn": ({}, 1.0),
    "greedy": ({"assignment": "greedy"}, 0.5),
    "soft": ({"assignment": "soft"}, 0.5),
    "punished": ({"unmatched": -0.5}, 0.5),
}
METHODS = ("outcome", *CALLS)
VARIANTS = (*METHODS, *(f"{name}_words" for name in METHODS))


def get_config(variant: str = "dual") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    method = variant.removesuffix("_words")
    env = env_section("ToolCalls-v1")
    config = _arrays(env) if method == variant else _words(env)
    config.num_seeds = 5
    if method in CALLS:
        matching, weight = CALLS[method]
        config.components.call_matching = section(call_matching, **matching)
        config.reward.turn_bonus = {"coefficient": 1.0}
        config.advantage = section(advantages.dual_level, turn_weight=weight)
    return config


def _arrays(env: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    config = base_config()
    config.updates = 300
    config.log_every = 30
    config.env = env
    config.policy = section(policies.mlp, hidden=(64, 64), critic="none")
    config.rollout = section(rollout.episodes, num_groups=16, group_size=16)
    config.advantage = section(advantages.grpo)
    config.learner.update(minibatches=4)
    config.optimizer.learning_rate = 1e-3
    config.evaluation.update(every=300, episodes=1024)
    return config


def _words(env: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    acting = section(rollout.episodes, num_groups=16, group_size=8)
    context = section(rollout.contexts.window, history=0)
    config = language.config_of("grpo", env, acting, context, warm_updates=40, updates=120)
    config.evaluation.update(every=40, episodes=1024)
    return config
