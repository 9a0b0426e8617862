"""PPO on Pendulum: a sanity check of continuous actions.

Schulman et al. (2017), https://arxiv.org/abs/1707.06347. Actions in [-1, 1] are scaled to the
torques of gymnax's Pendulum-v1.

    python -m launchers.train --config=configs/start/pendulum_ppo.py --workdir=runs/pendulum
    python -m launchers.evaluate --workdir=runs/pendulum --greedy --episodes=256

Two CPU cores. Expected returns: -151 to -155 in four seeds (random play -1,223).
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, env_section, section


def get_config() -> ml_collections.ConfigDict:
    config = base_config()
    config.num_seeds = 4
    config.updates = 100
    config.log_every = 20
    config.env = env_section("Pendulum-v1")
    config.policy = section(policies.mlp)
    config.rollout = section(rollout.segments, num_envs=16, length=200)
    config.advantage = section(advantages.gae, gamma=0.95, lam=0.95)
    config.objective.value.weight = 0.5
    config.learner.update(epochs=10, minibatches=25, normalize_advantage="minibatch")
    config.optimizer.update(learning_rate=1e-3, schedule="linear")
    config.evaluation.greedy = True
    return config
