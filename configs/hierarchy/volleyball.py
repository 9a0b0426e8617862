"""Volleyball of drones over scripted skills: a team's choices by self-play, PPO with GAE.

HCSP's second stage: Zhang et al. (2025), Mastering multi-drone volleyball through hierarchical
co-self-play, https://arxiv.org/abs/2505.04317; code thu-uav/HCSP (read). Games: "plane" (one
against one in a vertical plane), "1v1", "3v3".

    python -m launchers.train --config=configs/hierarchy/volleyball.py:1v1 --workdir=runs/volley

Two CPU cores, 1 min 22 s (1v1, three seeds) and 11 minutes (3v3, five). Expected: 1v1 wins 1,764 to
1,794 of 2,000 matches against the scripted planner, 3v3 712 to 791 of 1,000.
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section

VARIANTS = {
    "plane": ("PlanarVolleyball-v1", {}),
    "1v1": ("Volleyball-v1", {"teams": "1v1"}),
    "3v3": ("Volleyball-v1", {"teams": "3v3"}),
}


def get_config(variant: str = "plane") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = base_config()
    config.num_seeds = 3
    config.updates = {"plane": 200, "1v1": 100, "3v3": 340}[variant]
    config.log_every = 20
    config.checkpoint.update(every=20, keep=10)
    name, options = VARIANTS[variant]
    # Some decisions more than scripted planners need for a rally of 15 s.
    config.env = env_section(name, **options, max_steps_in_episode=32)
    config.policy = section(policies.mlp, hidden=(64, 64), critic="separate")
    config.rollout = section(rollout.episodes, num_groups=256, group_size=1, mask_illegal=True)
    config.advantage = section(advantages.gae, gamma=0.995, lam=0.95)
    config.objective.value.weight = 0.5
    # Most rows belong to finished matches; microbatches skip them.
    config.learner.update(epochs=2, minibatches=4, microbatch=1024)
    config.objective.entropy.weight = 0.02
    config.optimizer.update(learning_rate=1e-3, schedule="linear")
    if variant == "3v3":
        # One choice per drone, as in HCSP: 13 outputs for 72 joint actions.
        config.policy = section(policies.factored, choices=(6, 3, 4), hidden=(64, 64))
        # SFT until the policy equals the planner, so that self-play starts from there.
        config.warm_start.update(updates=300, learning_rate=2e-3)
        config.expert.update(episodes=64)
        config.rollout.update(opponent="pool", members=4)
        config.pool.update(capacity=4, every=20, draw="uniform")
        config.objective.entropy.update(weight=0.05, final_weight=0.01)
    return config
