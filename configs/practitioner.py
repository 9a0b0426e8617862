r"""A practitioner's grid in words: estimator, density of rewards, size of the world, share of SFT.

https://arxiv.org/abs/2510.01132. ESTIMATOR_REWARD: sparse (behind the last door), dense (behind
each), noisy (a judge who misses a fifth of the successes and invents one in twenty).

    python -m launchers.train --config=configs/practitioner.py:grpo_dense --workdir=runs/one
    p=configs/practitioner.py; python -m launchers.sweep --workdir=runs/grid \
        --configs=$p:ppo_sparse,$p:rloo_sparse,$p:grpo_sparse,$p:reinforce_pp_sparse \
        --grid="env.rooms=1,2,3;warm_start.updates=0,40,150"

Three minutes per cell of five seeds on two busy cores. What was run: configs/README.md.
"""

import ml_collections

from agentrl import advantages, rollout
from agentrl.config import env_section, section
from agentrl.methods.noisy_judge import noisy_judge
from configs import language

ESTIMATORS = ("ppo", "rloo", "grpo", "reinforce_pp")
REWARDS = ("sparse", "dense", "noisy")
METHODS = tuple(f"{estimator}_{reward}" for estimator in ESTIMATORS for reward in REWARDS)


def get_config(method: str = "grpo_sparse") -> ml_collections.ConfigDict:
    if method not in METHODS:
        raise ValueError(f"configs/practitioner.py:{method}: expected one of {', '.join(METHODS)}")
    estimator, reward = method.rsplit("_", 1)
    env = env_section("KeyDoor-v1", rooms=2, door_reward=0.5 if reward == "dense" else 0.0)
    config = language.config_of(
        "practitioner.py",
        "grpo" if estimator == "reinforce_pp" else estimator,
        env,
        section(rollout.episodes, num_groups=8, group_size=8),
        # The words name all there is: a turn needs no earlier ones.
        section(rollout.contexts.window, history=0),
        warm_updates=40,
        updates=60,
    )
    config.num_seeds = 5
    if estimator == "reinforce_pp":
        config.advantage = section(advantages.reinforce_pp)
    if reward == "noisy":
        config.components.noisy_judge = section(noisy_judge, missed=0.2, invented=0.05)
    # Rows are single turns.
    config.learner.update(microbatch=64, lengths=1)
    return config
