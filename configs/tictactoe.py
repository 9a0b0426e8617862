"""Self-play in tic-tac-toe by PPO: the policy against itself, evaluated against random play.

A policy can only learn to answer what is still played: with a low entropy bonus seat 1 forgets how
to block before seat 0 has learnt to punish it, and never finds out again. The bonus is therefore
0.4 at first, where all lines are met, and 0.1 at the end, where mistakes are still tried. (Scaling
advantages to variance 1 makes it worse, since nearly all are 0 then.)

    python -m launchers.train --config=configs/tictactoe.py --workdir=runs/tictactoe \
        --config.num_seeds=5
    python -m launchers.arena --game=TicTacToe-v1 --players=runs/tictactoe#all --exhaustive

Ten minutes for five seeds on one core that other jobs used too. The greedy policies of seeds 0 to 4
are beaten by no line of play of the other seat, from either seat (126, 124, 132, 147, 141 lines
against seat 0, 637, 621, 615, 633, 617 against seat 1). With 0.4 falling to 0.05 in 600 updates one
line of 565 beats one of the five.
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, env_section, section


def get_config() -> ml_collections.ConfigDict:
    config = base_config()
    config.updates = 800
    config.log_every = 50
    # No illegal moves: nine are the longest game.
    config.env = env_section("TicTacToe-v1", max_steps_in_episode=9)
    config.policy = section(policies.mlp, hidden=(128, 128))
    config.rollout = section(rollout.episodes, num_groups=512, group_size=1, mask_illegal=True)
    config.advantage = section(advantages.gae, gamma=1.0, lam=0.9)
    config.objective.value.weight = 0.5
    config.learner.update(epochs=2, minibatches=4)
    config.objective.entropy.update(weight=0.4, final_weight=0.1)
    config.optimizer.update(learning_rate=1e-3, schedule="linear")
    config.evaluation.update(every=200, greedy=True)
    return config
