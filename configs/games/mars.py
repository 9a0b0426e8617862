r"""MARS: credit by turns or by episodes, with baselines per role or one for all.

Yuan et al. (2025), MARS (later MARSHAL), https://arxiv.org/abs/2510.15414. The other cells:
--config.advantage.within=task (one mean for both seats), --config.reward.at_end.share=1.0 (all
reward at the last turn). "foraging_words": all players read and reply in the same turn. "released":
Tic-tac-toe in words by its code: credit per token, shaped rewards, k3 KL, dual clip.

    python -m launchers.train --config=configs/games/mars.py:foraging --workdir=runs/mars \
        --config.updates=160

Five seeds, one CPU core, 85 to 125 s. Return over all updates: foraging 0.396 by turns, 0.013 less
at the end; hanabi 1.915 everywhere; "released" against random play -8.28, then -7.58 (README.md).
"""

import ml_collections

from agentrl import advantages, losses, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section, term
from configs._shared import language

# Illegal actions are masked, so half of the default limits suffices.
VARIANTS = {
    "hanabi": ("Hanabi-v1", {"max_steps_in_episode": 13}),
    "foraging": ("Foraging-v1", {"size": 6, "max_steps_in_episode": 25}),
    # One food that takes both players.
    "foraging_words": (
        "Foraging-v1",
        {"size": 5, "foods": 1, "force_coop": True, "max_steps_in_episode": 15},
    ),
    "tictactoe": ("TicTacToe-v1", {"max_steps_in_episode": 9}),
    # An illegal reply ends the game: the stake of 1 and 10 more, and nothing for the other.
    "released": (
        "TicTacToe-v1",
        {"illegal_allowance": 0, "illegal_reward": -11.0, "illegal_other_reward": 0.0},
    ),
}
WARM = 600


def get_config(variant: str = "hanabi") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    name, options = VARIANTS[variant]
    config = base_config()
    config.num_seeds = 5
    config.updates = 400
    config.log_every = 20
    config.env = env_section(name, **options)
    config.policy = section(policies.mlp, hidden=(64, 64), critic="none")
    config.rollout = section(rollout.episodes, num_groups=64, group_size=1, mask_illegal=True)
    config.advantage = section(advantages.mars, within="task_role", whitened=True)
    config.reward.at_end = {"share": 0.0}
    config.learner.update(epochs=2, minibatches=2)
    config.objective.entropy.weight = 0.01
    config.optimizer.learning_rate = 1e-3
    config.evaluation.episodes = 1024
    if variant == "released":
        return _released(config)
    return _in_words(config) if variant == "foraging_words" else config


def _released(config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    """Games as one row per player, one epoch; a little imitation first."""
    config.num_seeds = 3
    config.policy = language.policy()
    config.rollout = section(rollout.episodes, num_groups=64, group_size=1)
    config.context = section(rollout.contexts.whole)
    # The expert's play against itself is a single line; noise adds other boards.
    config.warm_start.update(updates=60, learning_rate=3e-3)
    config.expert.update(episodes=32, noise=0.5)
    config.updates = 60 + 120
    config.log_every = 10
    config.advantage = section(advantages.mars_by_position)
    config.reward = {"mars_reward": {}}
    config.objective.policy = term(losses.clipped_surrogate, dual_clip=1.4)
    config.objective.kl.weight = 0.2
    config.objective.entropy.weight = 0.0
    config.learner.update(epochs=1, minibatches=1, aggregation="row_mean")
    config.optimizer.learning_rate = 3e-4
    # Against random play, after SFT and at the end.
    config.evaluation.every = 60
    return config


def _in_words(config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    """Taught by the expert, all players reading and replying at once; then by what they collect."""
    config.num_seeds = 3
    config.policy = language.policy()
    config.rollout = section(rollout.episodes, num_groups=32, group_size=1)
    config.context = section(rollout.contexts.window, history=0)
    config.warm_start.update(updates=WARM, learning_rate=3e-3)
    config.expert.update(episodes=32)
    config.updates = WARM + 100
    config.learner.update(epochs=1, microbatch=32)
    config.optimizer.learning_rate = 3e-4
    # After SFT, and at the end.
    config.evaluation.every = WARM
    return config
