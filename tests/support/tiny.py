"""Small configs that train in seconds, one for each rollout."""

import pathlib

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, env_section, section

TOYS = str(pathlib.Path(__file__).parent / "hosted_toys.py")


def groups_config(**changes):
    """GiGPO on a small lake: whole episodes in groups."""
    config = base_config()
    config.mesh.data = 1
    config.updates, config.log_every = 8, 2
    config.env = env_section("FrozenLake-v1", size=3, slippery=True, max_steps_in_episode=6)
    config.policy = section(policies.mlp, hidden=(8,), critic="none")
    config.rollout = section(rollout.episodes, num_groups=8, group_size=4)
    config.learner.minibatches = 2
    return changed(config, changes)


def segments_config(**changes):
    """PPO with a recurrent policy on the same lake: segments that end in mid-episode."""
    config = base_config()
    config.mesh.data = 1
    config.updates, config.log_every = 8, 2
    config.env = env_section("FrozenLake-v1", size=3, slippery=True, max_steps_in_episode=6)
    config.policy = section(policies.gru, hidden=(8,), memory_size=8)
    config.rollout = section(rollout.segments, num_envs=8, length=10)
    config.advantage = section(advantages.gae, gamma=0.99, lam=0.95)
    config.objective.value.weight = 0.5
    config.learner.update(epochs=2, minibatches=2, normalize_advantage="minibatch")
    return changed(config, changes)


def matches_config(**changes):
    """Kuhn's poker against a pool, with what the credit carries and a reference that moves."""
    config = base_config()
    config.mesh.data = 1
    config.updates, config.log_every = 8, 2
    config.env = env_section("KuhnPoker-v1", max_steps_in_episode=3)
    config.policy = section(policies.mlp, hidden=(8,), critic="none")
    config.rollout = section(
        rollout.episodes, num_groups=8, group_size=2, opponent="pool", members=2, mask_illegal=True
    )
    # Three places: from the sixth update on the oldest member goes.
    config.pool.update(capacity=3, every=2)
    config.advantage = section(advantages.rae_by_turn)
    config.objective.kl.weight = 0.1
    config.reference.every = 3
    return changed(config, changes)


def talk_config(**changes):
    """Warm start, then GiGPO with a language policy on the same lake: conversations."""
    config = base_config()
    config.mesh.data = 1
    config.updates, config.log_every = 8, 2
    config.env = env_section("FrozenLake-v1", size=3, slippery=True, max_steps_in_episode=4)
    config.policy = section(
        policies.transformer, width=16, layers=1, heads=2, kv_heads=1, hidden=32
    )
    config.rollout = section(rollout.episodes, num_groups=8, group_size=4)
    config.context = section(rollout.contexts.whole)
    config.warm_start.update(updates=4)
    if changes.get("warm_start__updates", True):
        config.expert.update(episodes=8, held_out=False)
    config.learner.minibatches = 2
    config.objective.kl.weight = 0.01
    return changed(config, changes)


def host_config(**changes):
    """Self-play in a game in Python, which starts processes."""
    config = base_config()
    config.mesh.data = 1
    config.updates, config.log_every = 4, 2
    config.env = env_section(f"{TOYS}:Race", slow=0.002)
    config.policy = section(
        policies.transformer, codec="byte", width=16, layers=1, heads=2, kv_heads=1, hidden=32
    )
    config.rollout = section(rollout.episodes, num_groups=8, group_size=2, max_turns=6)
    config.context = section(rollout.contexts.window, history=0, max_new_tokens=3)
    config.host.update(observation_tokens=6, workers=3)
    config.advantage = section(advantages.rae_by_turn)
    config.learner.minibatches = 2
    return changed(config, changes)


def train_of(experiment, phase="rl"):
    """The program of a phase: (TrainState) -> (TrainState, metrics)."""
    return {one.name: train for one, train in experiment.phases}[phase]


def mean(metrics, name):
    """The mean of a metric, from its total and weight."""
    total, weight = metrics[name]
    return float(total / weight)


def changed(config, changes):
    """The config with values by path; levels of the path are separated by two underscores."""
    for path, value in changes.items():
        *parents, last = path.split("__")
        node = config
        for parent in parents:
            node = node[parent]
        node[last] = value
    return config
