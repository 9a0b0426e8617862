"""Volleyball of drones over scripted skills: a team's choices by self-play, PPO with GAE.

HCSP's second stage: Zhang et al. (2025), Mastering multi-drone volleyball through hierarchical
co-self-play, https://arxiv.org/abs/2505.04317; code thu-uav/HCSP (read). A team decides when
somebody touches the ball or it crosses the net; scripted controllers fly in between. As there,
rewards between two decisions are summed, and the discount is per decision, however long it lasted.
Games: "plane" (one against one in a vertical plane), "1v1", "3v3".

    python -m launchers.train --config=configs/volleyball.py:plane --workdir=runs/plane

Frozen opponents instead of itself, those met more often that win more often:
--config.rollout.opponent=pool --config.pool.capacity=16. The scripted planner is "expert":

    python -m launchers.arena --game=PlanarVolleyball-v1 --players=expert,random,runs/plane#all
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.training.config import env_section, section
from agentrl.training.experiment import base_config

GAMES = {
    "plane": ("PlanarVolleyball-v1", {}),
    "1v1": ("Volleyball-v1", {"teams": "1v1"}),
    "3v3": ("Volleyball-v1", {"teams": "3v3"}),
}


def get_config(game: str = "plane") -> ml_collections.ConfigDict:
    if game not in GAMES:
        raise ValueError(f"configs/volleyball.py:{game}: expected one of {', '.join(GAMES)}")
    config = base_config()
    config.num_seeds = 3
    config.updates = 200
    config.log_every = 20
    config.checkpoint.update(every=40, keep=8)
    name, options = GAMES[game]
    # Some decisions more than a rally of 15 s has between scripted planners.
    config.env = env_section(name, **options, max_steps_in_episode=32)
    config.policy = section(policies.mlp, hidden=(64, 64), critic="separate")
    config.rollout = section(rollout.matches, num_groups=256)
    config.advantage = section(advantages.gae, gamma=0.995, lam=0.95)
    # Rows are most of them empty, of matches that are over: they are left out by the microbatch.
    config.learner.update(epochs=2, minibatches=4, microbatch=1024, entropy_coefficient=0.02)
    config.optimizer.update(learning_rate=1e-3, schedule="linear")
    return config
