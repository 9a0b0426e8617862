"""Jobs-v1: what unequal durations do to a gradient, and what weights by duration do about it.

Yang et al. (2025), https://arxiv.org/abs/2509.01684 (from notes). Each job is credited with its own
reward: less the batch's mean ("mean") or not ("none"); the job at the end of a shift is finished
("overtime") or fails ("cut"); "weighted" multiplies by `advantages.duration_aware`.

    python -m launchers.train --config=configs/credit/jobs.py:overtime_mean --workdir=runs/jobs

Five seeds, two CPU cores: 25 s each. Good jobs, of 1: 0.85 (the best method for each kind) in six
of eight; 0.75 (the slow one always) in overtime_none_weighted and cut_none_weighted: without the
weight nothing goes wrong (README.md).
"""

import ml_collections

from agentrl import advantages, policies, rewards, rollout
from agentrl.config import base_config, check_variant, env_section, section

VARIANTS = tuple(
    f"{end}_{baseline}{weight}"
    for end in ("overtime", "cut")
    for baseline in ("mean", "none")
    for weight in ("", "_weighted")
)


def get_config(variant: str = "overtime_mean") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = base_config()
    config.num_seeds = 5
    config.updates = 300
    config.log_every = 30
    config.env = env_section("Jobs-v1", overtime=variant.startswith("overtime"))
    config.policy = section(policies.mlp, hidden=(32,), critic="none")
    config.rollout = section(rollout.episodes, num_groups=8, group_size=8)
    # gamma=0: a job has no part in the jobs after it.
    if "_mean" in variant:
        config.advantage = section(advantages.reinforce_pp, gamma=0.0)
    else:
        config.advantage = section(rewards.discounted_return, gamma=0.0)
    config.learner.update(minibatches=1, epochs=1, normalize_advantage="none")
    if variant.endswith("weighted"):
        config.reweighting.duration_aware = section(advantages.duration_aware, cap=None)
    config.optimizer.learning_rate = 3e-3
    config.evaluation.update(every=300, episodes=1024)
    return config
