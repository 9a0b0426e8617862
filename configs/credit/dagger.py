"""KeyDoor from labels."""

import ml_collections

from agentrl import losses, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section, term
from agentrl.methods.dagger import dagger

ENVS = {
    "rooms": env_section("KeyDoor-v1", rooms=3),
    "maze": env_section("Maze-v1", size=(7, 7), max_steps_in_episode=30),
}
ARMS = {
    "dagger": {},
    "bc": {"decay": 1.0},
    "failures": {"keep": "failures"},
    "disagreements": {"keep": "disagreements"},
}
VARIANTS = tuple(f"{env}_{arm}" for env in ENVS for arm in ARMS)


def get_config(variant: str = "rooms_dagger") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    env, _, arm = variant.partition("_")
    config = base_config()
    config.num_seeds = 5
    config.updates = 400
    config.log_every = 50
    config.env = ENVS[env]
    config.policy = section(policies.mlp, hidden=(64, 64), critic="none")
    config.rollout = section(rollout.episodes, num_groups=16, group_size=8)
    config.objective.policy.weight = 0.0
    options = {"episodes": 8, "every": 20, "labels": 1500, "size": 2048} | ARMS[arm]
    config.components.dagger = section(dagger, **options)
    config.objective.imitation = term(losses.behaviour_cloning, source="dagger", during="rl")
    config.learner.update(epochs=1, minibatches=1, normalize_advantage="none")
    config.optimizer.learning_rate = 3e-3
    config.evaluation.update(every=400, episodes=1024)
    return config
