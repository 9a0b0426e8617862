"""Co-self-play."""

import ml_collections

import envs
from agentrl import policies, rollout
from agentrl.training import credit
from agentrl.training.base_config import base_config
from agentrl.training.config import env_section, section

GAMES = ("plane", "1v1", "3v3")


def get_config(game: str = "plane") -> ml_collections.ConfigDict:
    if game not in GAMES:
        raise ValueError(f"configs/volleyball_levels.py:{game}: expected one of {', '.join(GAMES)}")
    config = base_config()
    config.num_seeds = 3
    config.updates = 60
    config.log_every = 10
    config.checkpoint.update(every=20, keep=10)
    config.env = env_section(
        "PlannedVolleyball-v1", teams=game, residual=0.3, max_seconds=8.0, max_steps_in_episode=440
    )
    layout = envs.make("PlannedVolleyball-v1", teams=game)[0].layout
    config.policy = section(
        policies.hierarchy, **layout, train=("planner", "hit"), hidden=(32, 32), log_std=-2.0
    )
    config.rollout = section(rollout.matches, num_groups=32, mask_illegal=False)
    config.advantage = section(credit.hae, gamma=0.998, lam=0.95)
    config.learner.update(
        epochs=2,
        minibatches=4,
        microbatch=1760,
        normalize_advantage="role",
        entropy_coefficient=0.002,
        kl_coefficient=0.01,
        kl_estimator="exact",
    )
    config.optimizer.update(learning_rate=1e-3)
    return config
