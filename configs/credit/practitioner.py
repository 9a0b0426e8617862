"""A practitioner's grid: estimator, density of rewards, size of the world, budget, share of SFT.

https://arxiv.org/abs/2510.01132 (full text and code read). KeyDoor-v1 for its TextWorld: doors in a
row, keys of several colours. Presets ESTIMATOR_REWARD over arrays: sparse (behind the last door),
dense (behind each), noisy (a judge who misses a fifth of the successes and invents one in twenty),
and of PPO and GRPO shaped (sparse, and 0.02 more potential for each turn that comes closer);
ESTIMATOR_sparse_words by a transformer from scratch, after SFT. Sizes: env.rooms, env.keys_.

    python -m launchers.train --config=configs/credit/practitioner.py:ppo_dense --workdir=runs/one

Five seeds, two CPU cores: 30 s (words 3 minutes). Success with two, three rooms: ppo_sparse 0.99,
0.31; grpo_sparse 0.93, 0.00; ppo_dense 0.99 both; grpo_dense 0.95, 0.92 (README.md).
"""

import ml_collections

from agentrl import advantages, policies, rewards, rollout
from agentrl.config import base_config, check_variant, env_section, section
from agentrl.methods.judged_potential import judged_potential
from agentrl.methods.noisy_judge import noisy_judge
from configs._shared import language, methods

ESTIMATORS = ("ppo", "rloo", "grpo", "reinforce_pp")
REWARDS = ("sparse", "dense", "noisy")
ARRAYS = tuple(f"{estimator}_{reward}" for estimator in ESTIMATORS for reward in REWARDS)
SHAPED = ("ppo_shaped", "grpo_shaped")
WORDS = tuple(f"{estimator}_sparse_words" for estimator in ("ppo", "rloo", "grpo"))
VARIANTS = (*ARRAYS, *SHAPED, *WORDS)


def get_config(variant: str = "grpo_sparse") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    estimator, reward = variant.removesuffix("_words").rsplit("_", 1)
    preset = "grpo" if estimator == "reinforce_pp" else estimator
    env = env_section("KeyDoor-v1", rooms=2, door_reward=0.5 if reward == "dense" else 0.0)
    config = _words(env, preset) if variant.endswith("_words") else _arrays(env, preset)
    config.num_seeds = 5
    if estimator == "reinforce_pp":
        config.advantage = section(advantages.reinforce_pp)
    if reward == "shaped":
        config.rollout.judge = "progress"
        config.components.judged_potential = section(judged_potential, scale=0.02)
        gamma = config.advantage.get("gamma", 1.0)
        config.reward.potential_shaping = section(
            rewards.potential_shaping, named=False, gamma=gamma
        )
    if reward == "noisy":
        config.components.noisy_judge = section(noisy_judge, missed=0.2, invented=0.05)
    return config


def _arrays(env: ml_collections.ConfigDict, preset: str) -> ml_collections.ConfigDict:
    config = base_config()
    config.updates, config.log_every = 150, 15
    config.env = env
    critic = "shared" if preset == "ppo" else "none"
    config.policy = section(policies.mlp, hidden=(64, 64), critic=critic)
    config.rollout = section(rollout.episodes, num_groups=16, group_size=8)
    methods.use(config, preset)
    config.learner.update(epochs=2, minibatches=4, normalize_advantage="batch")
    config.objective.entropy.weight = 0.01
    config.optimizer.learning_rate = 1e-3
    config.evaluation.update(every=150, episodes=1024)
    return config


def _words(env: ml_collections.ConfigDict, preset: str) -> ml_collections.ConfigDict:
    config = language.config_of(
        preset,
        env,
        section(rollout.episodes, num_groups=8, group_size=8),
        # The words name all there is: a turn needs no earlier ones.
        section(rollout.contexts.window, history=0),
        warm_updates=40,
        updates=60,
    )
    # Rows are single turns.
    config.learner.update(microbatch=64, lengths=1)
    return config
