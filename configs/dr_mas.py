"""Advantages by each agent's own mean and deviation, or by those of all agents: Dr. MAS.

Feng et al. (2026), Dr. MAS, https://arxiv.org/abs/2602.08847. "kuhn": groups of eight hands with
the same cards, so that what the two seats can expect differs by what they hold (K against J), and
changes sign from group to group. "foraging": groups of eight fields that begin alike, on which
players of levels 1 to 3 have each a reward of their own. The other cells:

    --config.advantage.rows=all            one mean and deviation for all agents
    --config.advantage.normalize=mean      no division

    python -m launchers.train --config=configs/dr_mas.py:kuhn --workdir=runs/dr_mas_agent \\
        --config.updates=300
    python -m launchers.gradient_noise --workdir=runs/dr_mas_agent --turns=3

Kuhn's, five seeds, 60 to 80 s on one core that other jobs used too; means over seeds, differences
paired with Student's 95 % interval:

    300 updates                          rows=agent   rows=all   all - agent
    norm of the gradient, mean           0.129        0.139      +0.010 [-0.001, 0.021]
      99th percentile                    0.618        0.535      -0.083 [-0.199, 0.033]
      largest                            0.715        0.614      -0.101 [-0.191, -0.010]
    exploitability, mean of the run      0.357        0.277      -0.080 [-0.103, -0.057]
      of the last tenth                  0.417        0.296      -0.121 [-0.188, -0.054]

Own statistics have no smaller spikes here, and play that can be exploited more: where the deal
decides a hand, the eight returns of a seat hardly differ, and what they differ by is divided by a
small deviation. Both go to play without chance, one faster (see configs/poker.py for what stops
that). What the seats' different expectations add under one baseline has mean 0.
"""

import ml_collections

from agentrl import policies, rollout
from agentrl.training import credit
from agentrl.training.config import env_section, section
from agentrl.training.experiment import base_config

GAMES = {
    "kuhn": ("KuhnPoker-v1", {"max_steps_in_episode": 3}),
    "foraging": (
        "Foraging-v1",
        {"size": 6, "max_player_level": 3, "max_steps_in_episode": 25},
    ),
}


def get_config(game: str = "kuhn") -> ml_collections.ConfigDict:
    if game not in GAMES:
        raise ValueError(f"configs/dr_mas.py:{game}: expected one of {', '.join(GAMES)}")
    name, options = GAMES[game]
    config = base_config()
    config.num_seeds = 5
    config.updates = 400
    # Every update's norm, to see spikes.
    config.log_every = 1
    config.env = env_section(name, **options)
    config.policy = section(policies.mlp, hidden=(64, 64), critic="none")
    config.rollout = section(rollout.matches, num_groups=16, group_size=8)
    config.advantage = section(credit.dr_mas, rows="agent", normalize="std")
    config.learner.update(entropy_coefficient=0.02)
    config.optimizer.learning_rate = 1e-3
    return config
