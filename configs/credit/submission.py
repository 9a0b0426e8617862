"""A chain and a command to submit: dense rewards behind the outcome's gate, or summed (G-RA).

G-RA (2025), https://arxiv.org/abs/2508.10548 (notes). 1 for submitting at the target; legal turns
and submitting pay 0.1 where the level above was reached ("gated"), turns where anything was
submitted ("submitted"), always ("summed", D-RA), or never ("outcome"). `_words`: a transformer.

    python -m launchers.train --config=configs/credit/submission.py:gated --workdir=runs/gated

Five seeds, two CPU cores with much other work: 2 to 17 minutes, 40 s of processor time. Success of
1,024 tasks: outcome 0.96, gated 0.83, submitted 0.36, summed 0.03, which walks about until the time
is over (README.md). The words have no result yet.
"""

import ml_collections

from agentrl import advantages, policies, rewards, rollout
from agentrl.config import base_config, check_variant, env_section, section
from agentrl.methods.reward_levels import reward_levels
from configs._shared import language

# Thresholds of the submission and of the outcome; no sum is as low as -1.
LEVELS = {"gated": (0.0, 0.5), "submitted": (0.0, -1.0), "summed": (-1.0, -1.0)}
METHODS = ("outcome", *LEVELS)
VARIANTS = (*METHODS, *(f"{name}_words" for name in METHODS))


def get_config(variant: str = "gated") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    method = variant.removesuffix("_words")
    env = env_section("envs.wrappers.Submission", base=env_section("NumberLine-v1", length=9))
    acting = section(rollout.episodes, num_groups=16, group_size=8)
    config = _words(env, acting) if method != variant else _arrays(env, acting)
    config.num_seeds = 5
    if method in LEVELS:
        config.components.reward_levels = section(reward_levels)
        config.reward.gated_accumulation = section(
            rewards.gated_accumulation, named=False, thresholds=LEVELS[method]
        )
    return config


def _arrays(
    env: ml_collections.ConfigDict, acting: ml_collections.ConfigDict
) -> ml_collections.ConfigDict:
    config = base_config()
    config.updates = 200
    config.log_every = 20
    config.env, config.rollout = env, acting
    config.policy = section(policies.mlp, hidden=(64, 64), critic="none")
    config.advantage = section(advantages.grpo)
    config.learner.update(minibatches=4)
    config.optimizer.learning_rate = 1e-3
    config.evaluation.update(every=200, episodes=1024)
    return config


def _words(
    env: ml_collections.ConfigDict, acting: ml_collections.ConfigDict
) -> ml_collections.ConfigDict:
    # What has passed is not shown, so that the last turn cannot be told from others.
    context = section(rollout.contexts.window, history=0)
    config = language.config_of("grpo", env, acting, context, warm_updates=20, updates=100)
    config.evaluation.update(every=20, episodes=1024)
    return config
