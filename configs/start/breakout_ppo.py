"""PPO on Breakout-MinAtar: a sanity check of PPO with a CNN over segments.

Schulman et al. (2017), https://arxiv.org/abs/1707.06347; Young and Tian (2019), MinAtar,
https://arxiv.org/abs/1903.03176.

    python -m launchers.train --config=configs/start/breakout_ppo.py --workdir=runs/breakout

Two CPU cores, 78 s. Expected: a mean training return of 56.5 after 3.3M steps (one seed).
"""

import ml_collections

from agentrl import advantages, losses, policies, rollout
from agentrl.config import base_config, env_section, section, term


def get_config() -> ml_collections.ConfigDict:
    config = base_config()
    config.updates = 400
    config.log_every = 20
    config.env = env_section("Breakout-MinAtar")
    config.policy = section(policies.mlp, hidden=(64, 64), activation="relu")
    config.rollout = section(rollout.segments, num_envs=64, length=128)
    config.advantage = section(advantages.gae, gamma=0.99, lam=0.95)
    config.learner.update(epochs=4, minibatches=8, normalize_advantage="minibatch")
    config.objective.entropy.weight = 0.01
    config.objective.value = term(losses.clipped_value_loss, weight=0.5, clip=0.2)
    config.optimizer.update(learning_rate=5e-3, schedule="linear")
    config.evaluation.greedy = True
    return config
