"""Credit by turns or by episodes, compared with one's own role or with all: MARS's two choices.

Yuan et al. (2025), MARS (later MARSHAL), https://arxiv.org/abs/2510.15414. Each turn's return to go
less the mean over the turns of the same game and role ("task_role"). The other three cells:

    --config.advantage.group=task          one mean for both seats
    --config.reward.at_end.share=1.0       all reward at the last turn: every turn of an episode has
                                           the same return, the episode's

    python -m launchers.train --config=configs/mars.py:foraging --workdir=runs/mars \
        --config.updates=160

Five seeds, 40 to 80 s to compile and 45 s to learn on one core that other jobs used too; mean
[Student's 95 % interval] of a player's return over all updates, pairs being seeds.

                           foraging, 160 updates              hanabi, 400 updates
    by turns, task_role    0.396 [0.391, 0.400]               1.915 [1.909, 1.920]
    by turns, task         -0.001 [-0.005, 0.004]             +0.001 [-0.008, 0.009]   (differences
    at the end, task_role  -0.013 [-0.019, -0.007]            -0.001 [-0.004, 0.002]    from the
    at the end, task       -0.013 [-0.018, -0.008]            +0.001 [-0.004, 0.006]    first line)

Credit by turns learns foraging faster (success over all updates 0.722 against 0.685, difference
0.037 [0.021, 0.053]; over the last two lines 0.886 against 0.862). Own means do nothing there: the
seats are alike. In mini Hanabi all four learn the same: to play blind, so that the game is over
after four turns at 1.92 points (the expert, who hints, has 3.1); what to compare with is not what
keeps them from hinting. In tic-tac-toe, whose seats differ, 160 updates give a return against
random play of 0.247 with own means and 0.303 without (difference 0.056 [-0.156, 0.268];
--config.evaluation.every=160 --config.evaluation.episodes=2048): nothing that five seeds could
show. Where all reward comes at the end, as there and in MARSHAL's games but for its shaping, the
two ways of credit are the same to the last digit.

"foraging_words" is a small field in words, whose one food takes both players: all read their own
and reply in the same turn. Taught by the expert's episodes, then trained by what they collect:

    python -m launchers.train --config=configs/mars.py:foraging_words --workdir=runs/words
    python -m launchers.evaluate --workdir=runs/words

Three seeds, seven minutes on a machine that other jobs used too, of which 2 min 36 s of processor
time. Success on 1,024 tasks after 600 supervised updates 0.329, 0.160, 0.135, after 100 more of
self-play 0.511, 0.312, 0.188 (difference 0.129 [-0.037, 0.295]); random legal play 0.017, the
expert 1. Self-play improves every seed and does not mend what the warm start left out: the loss on
held-out episodes, 0.51, 0.57 and 0.68 a token, stands for 200 updates before it falls, and where it
has fallen least play stays worst. A third of the replies is illegal at the end (0.32, 0.34, 0.39;
0.26, 0.28, 0.32 in the first twenty updates of self-play): they count as staying, and cost nothing.
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, env_section, section
from configs import language

# Illegal actions are masked, so that half of the default limits is enough.
GAMES = {
    "hanabi": ("Hanabi-v1", {"max_steps_in_episode": 13}),
    "foraging": ("Foraging-v1", {"size": 6, "max_steps_in_episode": 25}),
    # One food that takes both.
    "foraging_words": (
        "Foraging-v1",
        {"size": 5, "foods": 1, "force_coop": True, "max_steps_in_episode": 15},
    ),
    "tictactoe": ("TicTacToe-v1", {"max_steps_in_episode": 9}),
    "kuhn": ("KuhnPoker-v1", {"rounds": 5, "max_steps_in_episode": 15}),
}
WARM = 600


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
    config.rollout = section(rollout.episodes, num_groups=64, group_size=1, mask_illegal=True)
    config.advantage = section(advantages.mars, within="task_role", whitened=True)
    config.reward.at_end = {"share": 0.0}
    config.learner.update(epochs=2, minibatches=2)
    config.objective.entropy.weight = 0.01
    config.optimizer.learning_rate = 1e-3
    config.evaluation.episodes = 1024
    return _in_words(config) if game == "foraging_words" else config


def _in_words(config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    """Taught by the expert, all players reading and replying at once; then by what they collect."""
    config.num_seeds = 3
    config.policy = language.policy()
    config.rollout = section(
        rollout.conversation, num_groups=32, group_size=1, context="window", history=0
    )
    config.warm_start.update(updates=WARM, learning_rate=3e-3)
    config.expert.update(episodes=32)
    config.updates = WARM + 100
    config.learner.update(epochs=1, microbatch=32)
    config.optimizer.learning_rate = 3e-4
    # After the warm start, and at the end.
    config.evaluation.every = WARM
    return config
