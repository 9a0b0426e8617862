"""Self-play in tic-tac-toe by PPO: the policy against itself, evaluated against random play.

With an entropy bonus of 0.02 seat 1 forgets how to block before seat 0 has learnt to punish it, and
never finds out again; scaling advantages to variance 1 makes it worse, since nearly all are 0 then.

    python -m launchers.train --config=configs/tictactoe.py --workdir=runs/tictactoe
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.training.config import env_section, section
from agentrl.training.experiment import base_config


def get_config() -> ml_collections.ConfigDict:
    config = base_config()
    config.updates = 600
    config.log_every = 50
    # No illegal moves: nine are the longest game.
    config.env = env_section("TicTacToe-v1", max_steps_in_episode=9)
    config.policy = section(policies.mlp, hidden=(128, 128))
    config.rollout = section(rollout.matches, num_groups=512)
    config.advantage = section(advantages.gae, gamma=1.0, lam=0.9)
    config.learner.update(epochs=2, minibatches=4, entropy_coefficient=0.1)
    config.optimizer.update(learning_rate=1e-3, schedule="linear")
    config.evaluation.update(every=200, greedy=True)
    return config
