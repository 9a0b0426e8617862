r"""KeyDoor: tasks of a list drawn by what can be learnt from them, or evenly.

Rutherford et al. (2024), https://arxiv.org/abs/2408.15099 (recalled, not read). Success is that of
the tasks that were drawn, so not of the same tasks. "dart": https://arxiv.org/abs/2509.23866 (from
notes); "dynamic": of its parts fewer attempts where success is above 0.6.

    python -m launchers.train --config=configs/credit/curriculum.py:learnability \
        --workdir=runs/curriculum

Three seeds, two busy CPU cores: 1 minute. Success in training at the end: learnability 0.84, 0.85,
0.88; failure 0.91, 0.93, 0.92; even 0.93, 0.93, 0.91. Mean over the run: 0.58, 0.47, 0.50. On 1,024
fixed tasks, five seeds: dynamic 0.93, even 0.92 to 0.94, dart 0.84 (README.md).
"""

import ml_collections

from agentrl import advantages, losses, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section, term
from agentrl.learner.components.importance import importance
from agentrl.methods.curriculum import curriculum, tasks_by_number
from agentrl.methods.dynamic_rollouts import dynamic_rollouts
from agentrl.methods.turn_entropy import turn_entropy
from agentrl.methods.turn_limits import turn_limits

VARIANTS = ("learnability", "failure", "even", "dynamic", "dart")


def get_config(variant: str = "learnability") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = base_config()
    config.num_seeds = 3
    config.updates = 150
    config.log_every = 10
    config.env = env_section("KeyDoor-v1", rooms=2)
    config.policy = section(policies.mlp, hidden=(64, 64), critic="none")
    config.rollout = section(rollout.episodes, num_groups=16, group_size=8)
    config.sampler = section(tasks_by_number)
    if variant in ("dynamic", "dart"):
        # The same number of episodes, in portions of two.
        config.rollout.update(num_groups=64, group_size=2)
        config.components.dynamic_rollouts = section(dynamic_rollouts, tasks=128)
    else:
        drawn = {"floor": 1.0} if variant == "even" else {"weighting": variant}
        config.components.curriculum = section(curriculum, tasks=128, **drawn)
    if variant == "dart":
        use_dart(config, tasks=128, first=30, least=10)
    config.advantage = section(advantages.grpo)
    config.learner.update(epochs=2, minibatches=4, normalize_advantage="batch")
    config.objective.entropy.weight = 0.01
    config.optimizer.learning_rate = 1e-3
    return config


def use_dart(config: ml_collections.ConfigDict, *, tasks: int, first: int, least: int) -> None:
    """Sets DART's other parts: limits of turns per task, from `first` down to `least`, uncertain
    turns alone, weights of a sampler that lags."""
    config.rollout.limited = True
    config.components.turn_limits = section(turn_limits, tasks=tasks, first=first, least=least)
    config.components.turn_entropy = section(turn_entropy)
    config.filters.high_entropy_turns = section(advantages.high_entropy_turns, quantile=0.2)
    config.staleness = 1
    config.components.importance = section(importance, cap=1.0)
    config.objective.policy = term(
        losses.clipped_surrogate, clip_low=0.1, clip_high=0.28, dual_clip=10.0, scale="importance"
    )
