r"""Self-play in tic-tac-toe by PPO: the policy against itself, evaluated against random play.

Schulman et al. (2017), https://arxiv.org/abs/1707.06347. The entropy bonus falls from 0.4 to 0.1;
with a low one seat 1 forgets how to block (README.md).

    python -m launchers.train --config=configs/games/tictactoe.py --workdir=runs/tictactoe \
        --config.num_seeds=5
    python -m launchers.arena --game=TicTacToe-v1 --players=runs/tictactoe#all --exhaustive

One CPU core, ten minutes for five seeds. Expected: no line of play beats any of the five greedy
policies.
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, env_section, section


def get_config() -> ml_collections.ConfigDict:
    config = base_config()
    config.updates = 800
    config.log_every = 50
    # Without illegal moves the longest game has nine turns.
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
