"""Credit by turns or by episodes, compared with one's own role or with all: MARS's two choices.

Yuan et al. (2025), MARS (later MARSHAL), https://arxiv.org/abs/2510.15414. Each turn's return to go
less the mean over the turns of the same game and role ("task_role"). The other three cells:

    --config.advantage.group=task          one mean for both seats
    --config.reward.at_end.share=1.0       all reward at the last turn: every turn of an episode has
                                           the same return, the episode's
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.training.config import env_section, section
from agentrl.training.experiment import base_config

# Illegal actions are masked, so that half of the default limits is enough.
GAMES = {
    "hanabi": ("Hanabi-v1", {"max_steps_in_episode": 13}),
    "foraging": ("Foraging-v1", {"size": 6, "max_steps_in_episode": 25}),
    "tictactoe": ("TicTacToe-v1", {"max_steps_in_episode": 9}),
    "kuhn": ("KuhnPoker-v1", {"rounds": 5, "max_steps_in_episode": 15}),
}


def get_config(game: str = "hanabi") -> ml_collections.ConfigDict:
    if game not in GAMES:
        raise ValueError(f"configs/mars.py:{game}: expected one of {', '.join(GAMES)}")
    name, options = GAMES[game]
    config = base_config()
    config.num_seeds = 5
    config.updates = 400
    config.log_every = 20
    config.env = env_section(name, **options)
    config.policy = section(policies.mlp, hidden=(64, 64), critic="none")
    config.rollout = section(rollout.matches, num_groups=64)
    config.advantage = section(advantages.mars, group="task_role", whitened=True)
    config.reward.at_end = {"share": 0.0}
    config.learner.update(epochs=2, minibatches=2, entropy_coefficient=0.01)
    config.optimizer.learning_rate = 1e-3
    config.evaluation.episodes = 1024
    return config
