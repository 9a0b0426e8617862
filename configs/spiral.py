"""Self-play in words with a baseline for each seat: SPIRAL in small, one game, from scratch.

Liu et al. (2025), SPIRAL, https://arxiv.org/abs/2506.24119, trained a language model of 4B
parameters on three games; here a transformer of some 90,000 learns one, a fragment a token. As
there: every turn is read by itself, both seats are trained, a reply that is no legal command loses
(-1.5, and 0.5 for the other), the loss is a sum over tokens by a constant, nothing pulls to a
reference. `--config.advantage.decay=1.0` is without the role's baseline, which then stays 0.

    python -m launchers.train --config=configs/spiral.py:TicTacToe-v1 --workdir=runs/spiral
"""

import ml_collections

from agentrl import rollout
from agentrl.training import credit
from agentrl.training.config import env_section, section
from agentrl.training.experiment import base_config
from configs import language


def get_config(game: str = "TicTacToe-v1") -> ml_collections.ConfigDict:
    config = base_config()
    config.updates = 400
    config.log_every = 20
    config.env = env_section(
        game, illegal_allowance=0, illegal_reward=-1.5, illegal_other_reward=0.5
    )
    config.policy = language.policy()
    config.rollout = section(
        rollout.conversation, num_groups=128, group_size=1, context="window", history=0
    )
    config.advantage = section(credit.rae)
    config.learner.update(
        minibatches=2, microbatch=64, aggregation="constant", entropy_coefficient=0.003
    )
    config.optimizer.learning_rate = 1e-3
    config.evaluation.every = 100
    return config
