"""Coin-v1 in words with a budget of turns: none, cut, told, or extended when the policy asks.

Strategies of turn control (from an abstract and notes, no code read): a fixed limit, the same with
a reminder of the turns left, or a smaller one that can be extended. All pay 0.01 per turn. Cut in
training alone: "short", or with Mini-o3's filter, https://arxiv.org/abs/2509.07969, "over_turn".

    python -m launchers.train --config=configs/words/turn_budget.py:reminded --workdir=runs/reminded

Five seeds, two CPU cores, 1 to 2 minutes. Success and turns: whole 0.92, 8.8; cut 0.78, 7.5;
reminded 0.71, 7.9; extended 0.91, 10.9; short 0.81, 9.8; over_turn 0.35, 16.3. More: README.md.
"""

import ml_collections

from agentrl import advantages, rollout
from agentrl.config import check_variant, env_section, section
from configs._shared import language

VARIANTS = ("whole", "cut", "reminded", "extended", "short", "over_turn")
# Turns granted, of 20; `extended` may ask for five more, three times, and so does its expert: a
# policy that is never shown how to ask does not find out (README.md).
TURNS = {"cut": 10, "reminded": 10, "extended": 3}


def get_config(variant: str = "reminded") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    env = env_section("Coin-v1", max_steps_in_episode=20)
    if variant in TURNS:
        env = env_section(
            "envs.wrappers.TurnBudget",
            base=env,
            turns=TURNS[variant],
            remind=variant != "cut",
            extension=5 if variant == "extended" else 0,
        )
    acting = section(rollout.episodes, num_groups=16, group_size=8)
    context = section(rollout.contexts.window, history=0)
    config = language.config_of("grpo", env, acting, context, warm_updates=80, updates=120)
    config.num_seeds = 5
    config.advantage.normalize = "mean"
    config.reward.step_penalty = {"amount": 0.01}
    config.learner.update(microbatch=64, lengths=1)
    config.evaluation.update(every=100, episodes=1024)
    if variant in ("short", "over_turn"):
        config.rollout.horizons, config.rollout.horizon_every = (10,), config.updates
    if variant == "over_turn":
        config.filters.over_turn = section(advantages.over_turn_masking)
    return config
