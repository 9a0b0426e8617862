r"""Volleyball of drones without a hierarchy: one policy of all drones by rates, by self-play.

The comparison of `volleyball_levels.py`: no skills, no planner, no scripted controller;
every drone observes the match and is commanded by one MLP, from scratch.

    python -m launchers.train --config=configs/hierarchy/volleyball_flat.py:plane \
        --workdir=runs/flat

Two CPU cores, 8 minutes for three seeds (240 updates in the plane). Expected: drones stay up and
strike the ball that falls onto them; serves are not returned. Not tuned.
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section

VARIANTS = {
    "plane": ("PlanarVolleyball-v1", {}),
    "1v1": ("Volleyball-v1", {"teams": "1v1"}),
}


def get_config(variant: str = "plane") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = base_config()
    config.num_seeds = 3
    config.updates = 240
    config.log_every = 20
    config.checkpoint.update(every=20, keep=10)
    name, options = VARIANTS[variant]
    # Matches of up to 4 s: the ball crosses the net about twice.
    config.env = env_section(
        name,
        **options,
        actions="rates",
        touch_reward=0.2,
        max_seconds=4.0,
        max_steps_in_episode=200,
    )
    config.policy = section(policies.mlp, hidden=(64, 64), log_std=-1.0)
    config.rollout = section(rollout.episodes, num_groups=256, mask_illegal=False, group_size=1)
    config.advantage = section(advantages.gae, gamma=0.99, lam=0.95)
    config.objective.value.weight = 0.5
    # Microbatches skip the rows of finished matches.
    config.learner.update(epochs=2, minibatches=4, microbatch=3200, normalize_advantage="batch")
    config.optimizer.update(learning_rate=1e-3)
    return config
