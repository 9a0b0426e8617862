"""Video-v1: where to look in a long video. Rewards of looks, behind the outcome's gate or not.

Video-MTR (2025), https://arxiv.org/abs/2508.20478 (code read, the gate from notes). "gated": looks
that show more of the relevant frames pay 0.5 if the answer is right; "ungated": always, as the
release does; "explore": gated, and 0.1 for any look while less than half of the turns look;
"outcome": the answer alone; "single": no turn but the answer. GAE over turns, discount 0.95.
`_words`: by a transformer, no result yet.

    python -m launchers.train --config=configs/credit/video.py:gated --workdir=runs/gated

Five seeds, two busy CPU cores: 2 minutes. Success of 1,024 tasks: gated 0.82, explore 0.82, outcome
0.62, single 0.12, ungated 0.08, which looks and never answers (README.md).
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section
from agentrl.methods.looking import looking
from configs._shared import language

METHODS = ("gated", "ungated", "explore", "outcome", "single")
VARIANTS = (*METHODS, "gated_words", "outcome_words")


def get_config(variant: str = "gated") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    method = variant.removesuffix("_words")
    turns, in_words = 1 if method == "single" else 4, method != variant
    config = _words(turns) if in_words else _arrays(turns)
    config.num_seeds = 5
    config.advantage = section(advantages.gae, gamma=0.95, lam=0.95)
    if method in ("gated", "ungated", "explore"):
        more = {"explore": 0.1} if method == "explore" else {}
        config.components.looking = section(looking, **more)
        # Actions of arrays have no format.
        formatted = 0.1 if in_words else 0.0
        config.reward.gated_turn_rewards = {
            "gated": method != "ungated",
            "format_reward": formatted,
        }
    return config


def _arrays(turns: int) -> ml_collections.ConfigDict:
    config = base_config()
    config.updates = 1500
    config.log_every = 50
    config.env = env_section("Video-v1", digits=8, turns=turns)
    config.policy = section(policies.mlp, hidden=(64, 64), critic="shared")
    config.rollout = section(rollout.episodes, num_groups=32, group_size=8)
    config.learner.update(epochs=2, minibatches=4, normalize_advantage="batch")
    config.objective.entropy.weight = 0.03
    config.objective.value.weight = 0.5
    config.optimizer.learning_rate = 1e-3
    config.evaluation.update(every=1500, episodes=1024)
    return config


def _words(turns: int) -> ml_collections.ConfigDict:
    env = env_section("Video-v1", frames=32, scenes=2, turns=turns)
    acting = section(rollout.episodes, num_groups=16, group_size=8)
    context = section(rollout.contexts.window, history=0)
    config = language.config_of("ppo", env, acting, context, warm_updates=40, updates=120)
    config.evaluation.update(every=40, episodes=1024)
    return config
