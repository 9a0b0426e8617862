"""Support-v1: comfort a user. Credit by returns of equal turns, by rewards of all turns, or both.

MAPO (2026), https://arxiv.org/abs/2603.06194, from two readings by others: "mixed" takes the return
to go among equal turn numbers of the group and the turn's reward among all turns of the group, half
each; "turn" and "pool" one of them; "outcome" is GRPO on the dialogue's sum. What a turn pays is
the decrease of the user's distance. `_words`: by a transformer that reads each turn by itself,
after 20 supervised updates.

    python -m launchers.train --config=configs/credit/support.py:mixed --workdir=runs/mixed

No result yet. The expert solves 0.79 of 1,024 tasks. To guess pays at once, to ask a turn later, so
that "pool" alone should fall behind.
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section
from configs._shared import language

# The weight of the return to go.
WEIGHTS = {"mixed": 0.5, "turn": 1.0, "pool": 0.0}
METHODS = (*WEIGHTS, "outcome")
VARIANTS = (*METHODS, *(f"{name}_words" for name in METHODS))


def get_config(variant: str = "mixed") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    method = variant.removesuffix("_words")
    acting = section(rollout.episodes, num_groups=16, group_size=8)
    config = _arrays(acting) if method == variant else _words(acting)
    config.num_seeds = 5
    if method in WEIGHTS:
        config.advantage = section(advantages.mapo, turn_weight=WEIGHTS[method])
    return config


def _arrays(acting: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    config = base_config()
    config.updates = 100
    config.log_every = 10
    config.env, config.rollout = env_section("Support-v1"), acting
    config.policy = section(policies.mlp, hidden=(64, 64), critic="none")
    config.advantage = section(advantages.grpo)
    config.learner.update(minibatches=4)
    config.optimizer.learning_rate = 1e-3
    config.evaluation.update(every=100, episodes=1024)
    return config


def _words(acting: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    env, context = env_section("Support-v1"), section(rollout.contexts.window, history=0)
    config = language.config_of("grpo", env, acting, context, warm_updates=20, updates=60)
    config.evaluation.update(every=20, episodes=1024)
    return config
