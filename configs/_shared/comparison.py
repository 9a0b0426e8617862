"""What the suites of `configs/comparison` share: worlds, scores, methods, what is equal for all."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import ml_collections

from agentrl import advantages, losses, policies, rollout
from agentrl.config import base_config, section, term
from agentrl.methods.epo import entropy_history
from agentrl.methods.success_replay import success_replay

# The method that the others are compared with.
BASELINE = "grpo"


class Protocol(NamedTuple):
    """What is equal for all methods of a suite.

    seeds: of the results. tuning_seeds: of the choice among all combinations of `tuning`, the
    values by key; each combination has as many of them.
    """

    seeds: range
    tuning_seeds: range
    tuning: Mapping[str, tuple[float, ...]]


IN_ARRAYS = Protocol(
    range(10),
    range(1000, 1018),
    {
        "optimizer.learning_rate": (1e-3, 3e-3, 1e-2),
        "objective.entropy.weight": (0.003, 0.03),
    },
)
IN_WORDS = Protocol(
    range(5),
    range(1000, 1012),
    {
        "optimizer.learning_rate": (1e-4, 3e-4, 1e-3),
        "objective.entropy.weight": (0.0, 0.003),
    },
)


class Score(NamedTuple):
    """By what methods are ranked in a world: (metric - low) / (high - low).

    metric: of `metrics.jsonl`; one that is not an evaluation's is `low` before the first update.
    low, high: 0 and 1 of the score, such as random play and the expert; a metric that falls has
    its larger value as `low`.
    """

    metric: str
    low: float = 0.0
    high: float = 1.0


SUCCESS = Score("evaluation/success_rate")
RETURN = Score("evaluation/episode_return")


class World(NamedTuple):
    """An environment with its options, and the turns in which each seed learns there.

    score: of held-out tasks, or of the policy itself. opponent: who has the other seats of a game
    in evaluations.
    """

    env: ml_collections.ConfigDict
    env_steps: int
    score: Score = SUCCESS
    opponent: str = "random"


def over_arrays(world: World, groups: int) -> ml_collections.ConfigDict:
    """The config without a method: `groups` tasks of 8 episodes an update, a network of 64 x 64."""
    config = base_config()
    config.num_seeds = len(IN_ARRAYS.seeds)
    # The budget ends a run; updates are only a bound.
    config.updates = 10_000
    config.env_steps = world.env_steps
    config.log_every = 10
    config.env = world.env.copy_and_resolve_references()
    config.policy = section(policies.mlp, hidden=(64, 64), critic="none")
    config.rollout = section(rollout.episodes, num_groups=groups, group_size=8)
    config.learner.update(epochs=2, minibatches=4)
    # Whitened, so that the weight of the entropy means the same for all.
    config.learner.normalize_advantage = "batch"
    config.objective.entropy.weight = 0.01
    config.optimizer.learning_rate = 3e-3
    config.evaluation.update(every=10, episodes=256, at_start=True, opponent=world.opponent)
    return config


def critic(config: ml_collections.ConfigDict) -> None:
    """A critic of its own, for methods that need one."""
    config.policy.critic = "separate"
    config.objective.value.weight = 0.5


def estimator(function: Callable, **options) -> Callable[[ml_collections.ConfigDict], None]:
    """A method that is an estimator of advantages and nothing else."""

    def use(config: ml_collections.ConfigDict) -> None:
        config.advantage = section(function, **options)

    return use


def dapo(config: ml_collections.ConfigDict) -> None:
    """GRPO on groups with a spread of returns, with DAPO's wider upper clip."""
    config.advantage = section(advantages.grpo)
    config.filters.dynamic_sampling = section(advantages.dynamic_sampling)
    config.objective.policy.clip_high = 0.28


def starpo_s(config: ml_collections.ConfigDict) -> None:
    """GRPO on the quarter of groups with the largest spread of returns (RAGEN's StarPO-S)."""
    config.advantage = section(advantages.grpo)
    config.filters.top_variance = section(advantages.top_variance, fraction=0.25)
    config.objective.policy.clip_high = 0.28


def epo(config: ml_collections.ConfigDict) -> None:
    """GRPO with EPO's corridor for the entropy."""
    config.advantage = section(advantages.grpo)
    config.components.entropy_history = section(entropy_history)
    config.objective.epo = term(losses.epo, weight=0.01)


def replay(config: ml_collections.ConfigDict) -> None:
    """GRPO with a stored success in the place of one episode of a failed group (ARPO)."""
    config.advantage = section(advantages.grpo)
    config.components.success_replay = section(success_replay, tasks=64)


def check_variant(variant: str, worlds: Mapping, methods: Mapping) -> tuple[str, str]:
    """(world, method) of "WORLD,METHOD"; ValueError for others."""
    world, _, method = variant.partition(",")
    if world not in worlds or method not in methods:
        raise ValueError(
            f"variant {variant!r}: expected WORLD,METHOD with one of {', '.join(worlds)} and one "
            f"of {', '.join(methods)}"
        )
    return world, method
