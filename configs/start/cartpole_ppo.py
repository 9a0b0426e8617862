"""PPO on CartPole: a sanity check of PPO over segments, with the settings of PureJaxRL's example.

Schulman et al. (2017), https://arxiv.org/abs/1707.06347.

    python -m launchers.train --config=configs/start/cartpole_ppo.py --workdir=runs/cartpole

Two CPU cores. Expected: an evaluated return of 500.0 in 8 of 8 seeds
(--config.num_seeds=8; launchers.evaluate --greedy --episodes=256).
"""

import ml_collections

from agentrl import advantages, losses, policies, rollout
from agentrl.config import base_config, env_section, section, term


def get_config() -> ml_collections.ConfigDict:
    config = base_config()
    config.updates = 960
    config.log_every = 20
    config.env = env_section("CartPole-v1")
    config.policy = section(policies.mlp)
    config.rollout = section(rollout.segments, num_envs=4, length=128)
    config.advantage = section(advantages.gae, gamma=0.99, lam=0.95)
    config.learner.update(epochs=4, minibatches=4, normalize_advantage="minibatch")
    config.objective.entropy.weight = 0.01
    config.objective.value = term(losses.clipped_value_loss, weight=0.5, clip=0.2)
    config.optimizer.schedule = "linear"
    config.evaluation.greedy = True
    return config
