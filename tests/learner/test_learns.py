"""It learns: one short seeded run per way of acting, with what it has to reach."""

import jax
import numpy as np
import pytest

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, env_section, section
from agentrl.config.build import build
from configs.words import coin_talk


def means(totals):
    return {name: float(x[0] / x[1]) for name, x in totals.items() if x[1] > 0}


def run(config, seed=0):
    """Metrics of the first and of the last program of a run of one seed."""
    config.mesh.data = 1
    experiment = build(config)
    state, seen = jax.jit(experiment.init)(seed), []
    for phase, train in experiment.phases:
        program = jax.jit(train, donate_argnums=0)
        if phase.first:
            state = jax.jit(experiment.restart)(state)
        for _ in range(phase.first, phase.end, config.log_every):
            state, totals = program(state)
            seen.append(means(totals))
    return seen


def lake(**options):
    options = {"size": 4, "slippery": False, "max_steps_in_episode": 12} | options
    return env_section("FrozenLake-v1", **options)


def groups():
    config = base_config()
    config.updates, config.log_every = 80, 20
    config.env = lake()
    config.policy = section(policies.mlp, hidden=(32,), critic="none")
    config.rollout = section(rollout.episodes, num_groups=32, group_size=8)
    config.optimizer.learning_rate = 2e-2
    config.objective.entropy.weight = 0.01
    return config


def segments():
    config = base_config()
    config.updates, config.log_every = 60, 10
    config.env = env_section("CartPole-v1")
    config.policy = section(policies.mlp, hidden=(32,))
    config.rollout = section(rollout.segments, num_envs=16, length=64)
    config.advantage = section(advantages.gae, gamma=0.99, lam=0.95)
    config.objective.value.weight = 0.5
    config.learner.update(epochs=4, minibatches=4, normalize_advantage="minibatch")
    config.optimizer.learning_rate = 1e-3
    return config


def pool():
    config = base_config()
    config.updates, config.log_every = 200, 50
    config.env = env_section("KuhnPoker-v1", max_steps_in_episode=3)
    config.policy = section(policies.mlp, hidden=(32,), critic="none")
    sizes = {"num_groups": 256, "group_size": 1, "mask_illegal": True}
    config.rollout = section(rollout.episodes, opponent="pool", members=4, **sizes)
    config.pool.update(capacity=8, every=10)
    config.advantage = section(advantages.rae_by_turn)
    config.objective.entropy.weight = 0.05
    config.optimizer.learning_rate = 3e-3
    return config


def words():
    """In half of its groups and at a higher rate, it is there after fewer updates."""
    config = coin_talk.get_config("gigpo")
    config.updates, config.log_every = 140, 20
    config.rollout.num_groups, config.optimizer.learning_rate = 8, 1e-3
    config.evaluation.every = 0
    return config


def imitation_beside():
    """No warm start: expert's rows beside the policy's own, with a weight of their own."""
    config = groups()
    config.updates = 60
    config.expert.update(episodes=16, held_out=False)
    config.objective.imitation.update(during="rl", weight=0.5)
    return config


@pytest.mark.parametrize(
    ("make", "metric", "before", "after"),
    [
        (groups, "success_rate", 0.35, 0.6),
        (segments, "episode_return", 60, 120),
        (pool, "exploitability", -0.3, -0.2),
        pytest.param(words, "success_rate", None, 0.35, marks=pytest.mark.long),
        (imitation_beside, "success_rate", 0.4, 0.6),
    ],
)
def test_learns(make, metric, before, after):
    """Bounds on the first and last value; negative ones are of what has to fall."""
    seen = [x[metric] for x in run(make()) if metric in x]
    sign = -1 if after < 0 else 1
    assert np.isfinite(seen).all()
    assert before is None or sign * seen[0] < before, seen
    assert sign * seen[-1] > after, seen
