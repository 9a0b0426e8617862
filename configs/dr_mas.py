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

Kuhn's, five seeds, 17 to 80 s on one core that other jobs used too, 300 updates; means over seeds,
differences paired with Student's 95 % interval:

                                    normalize=std                  normalize=mean
                              agent  all    all - agent          agent  all    all - agent
    gradient's norm, mean     0.129  0.139  +.010 [-.001, .021]  0.126  0.194  +.067 [.054, .081]
      99th percentile         0.618  0.535  -.083 [-.199, .033]  0.740  0.846  +.106 [.027, .184]
      largest                 0.715  0.614  -.101 [-.191, -.010] 0.879  0.959  +.080 [.010, .151]
    exploitability, mean      0.357  0.277  -.080 [-.103, -.057] 0.316  0.283  -.033 [-.066, .001]
      of the last tenth       0.417  0.296  -.121 [-.188, -.054] 0.358  0.297  -.061 [-.148, .025]

Own means make gradients and their largest smaller, as the paper says; divided by own deviations
they are not, and play can be exploited more. Why, after 20 updates with rows=all, mean of five
seeds (launchers.gradient_noise; "episodes": for a gradient as long as its error):

                                    normalize=std                  normalize=mean
                              seat 0         seat 1              seat 0         seat 1
                              agent  all     agent  all          agent  all     agent  all
    mean square of A          0.84   0.83    0.82   1.07         0.74   2.68    0.75   3.46
    second moment of gradient 9.9    4.4     9.6    4.1          10.1   13.6    9.4    12.5
    episodes                  82     34      95     15           45     39      20     16

The squares of A, by which the paper predicts, give factors of 1.0 and 1.3 with the division, 3.6
and 4.6 without; measured are 0.44 and 0.42, 1.35 and 1.33. The prediction takes scores and
advantages to be independent. Of eight hands with the same cards the seat that did something rare
has the long score and, divided by a deviation that is small since the others did alike, the large
advantage. What the seats' difference adds under one baseline lies on frequent actions, too, whose
scores are short.
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, env_section, section

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
    config.rollout = section(rollout.episodes, num_groups=16, group_size=8, mask_illegal=True)
    config.advantage = section(advantages.dr_mas, statistics="agent_turns", normalize="std")
    config.objective.entropy.weight = 0.02
    config.optimizer.learning_rate = 1e-3
    return config
