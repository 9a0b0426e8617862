r"""Dr. MAS: advantages by each agent's own mean and deviation, or by those of all agents.

Feng et al. (2026), Dr. MAS, https://arxiv.org/abs/2602.08847. "kuhn": groups of eight hands with
the same cards. "foraging": groups of eight fields that begin alike, with rewards per player. The
other cells: --config.advantage.statistics=all_turns (one mean and deviation for all agents),
--config.advantage.normalize=mean (no division).

    python -m launchers.train --config=configs/teams/dr_mas.py:kuhn --workdir=runs/dr_mas \
        --config.updates=300

One CPU core, 17 to 80 s for five seeds. Expected mean gradient norm in Kuhn's poker: 0.129 per
agent, 0.139 over all agents; not divided 0.126 and 0.194. Details: README.md.
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section

VARIANTS = {
    "kuhn": ("KuhnPoker-v1", {"max_steps_in_episode": 3}),
    "foraging": (
        "Foraging-v1",
        {"size": 6, "max_player_level": 3, "max_steps_in_episode": 25},
    ),
}


def get_config(variant: str = "kuhn") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    name, options = VARIANTS[variant]
    config = base_config()
    config.num_seeds = 5
    config.updates = 400
    # Logs the norm of every update, to show spikes.
    config.log_every = 1
    config.env = env_section(name, **options)
    config.policy = section(policies.mlp, hidden=(64, 64), critic="none")
    config.rollout = section(rollout.episodes, num_groups=16, group_size=8, mask_illegal=True)
    config.advantage = section(advantages.dr_mas, statistics="agent_turns", normalize="std")
    config.objective.entropy.weight = 0.02
    config.optimizer.learning_rate = 1e-3
    return config
