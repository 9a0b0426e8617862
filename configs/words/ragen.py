"""RAGEN's StarPO and StarPO-S on FrozenLake-v1 in words, by a transformer from scratch.

Wang et al. (2025), RAGEN, https://arxiv.org/abs/2504.20073. "_trap": ice that is not slippery, four
epochs, three times the rate, also for "starpo_filter" (StarPO-S without its critic);
"household_...": GiGPO by std on Household-v1 after SFT, with and without remedies.

    python -m launchers.train --config=configs/words/ragen.py:starpo_s --workdir=runs/starpo_s

Two CPU cores, 5 to 25 minutes per method. Expected: no gain by StarPO-S on the lake; on Household
the filter keeps success (0.566 against 0.409 without, five seeds). Details: README.md.
"""

import ml_collections

from agentrl import advantages, losses, rollout
from agentrl.config import base_config, check_variant, env_section, section, term
from configs._shared import language
from configs.words import household

NAMES = ("starpo", "starpo_filter", "starpo_s")
# Without a critic: GiGPO remains the estimator.
HOUSEHOLD = ("household", "household_filter", "household_s")
VARIANTS = ("starpo", "starpo_s", *(f"{name}_trap" for name in (*NAMES, *HOUSEHOLD)))


def get_config(variant: str = "starpo_s") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    name, trap = variant.removesuffix("_trap"), variant.endswith("_trap")
    if name in HOUSEHOLD:
        return _household(name)
    critic = name == "starpo_s"
    config = base_config()
    config.updates = 440
    config.log_every = 10
    config.env = env_section("FrozenLake-v1")
    config.policy = language.policy(critic="shared" if critic else "none")
    config.rollout = section(rollout.episodes, num_groups=8, group_size=16)
    config.context = section(rollout.contexts.whole)
    config.reward.format_penalty = {"coefficient": 0.1}
    config.warm_start.update(updates=40, learning_rate=3e-3)
    config.expert.update(episodes=32)
    config.learner.minibatches = 4
    config.objective.entropy.weight = 0.001
    config.optimizer.learning_rate = 3e-4
    if name == "starpo":
        config.objective.kl.weight = 0.001
    else:
        config.filters.top_variance = {"fraction": 0.25}
        config.objective.policy = term(losses.clipped_surrogate, clip_high=0.28)
    if critic:
        config.advantage = section(advantages.gae, gamma=1.0, lam=1.0)
        config.learner.normalize_advantage = "batch"
        # The value head shares the decoder, and is untrained at the end of SFT.
        config.objective.value.weight = 0.1
    else:
        config.advantage = section(advantages.grpo)
    config.evaluation.every = 40
    if trap:
        config.update(num_seeds=3, seed=100, updates=300)
        config.env.slippery = False
        config.rollout.group_size = 8
        config.context = section(rollout.contexts.window, history=0)
        config.warm_start.updates = 100
        config.learner.update(epochs=4, microbatch=16)
        config.optimizer.learning_rate = 1e-3
        config.evaluation.every = 0
    return config


def _household(name: str) -> ml_collections.ConfigDict:
    config = household.get_config("gigpo")
    config.update(num_seeds=3, seed=100, log_every=4)
    config.advantage.normalize = "std"
    if name != "household":
        config.filters.top_variance = {"fraction": 0.25}
    if name == "household_s":
        config.objective.policy.clip_high = 0.28
    return config
