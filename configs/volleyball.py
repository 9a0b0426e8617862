"""Volleyball of drones over scripted skills: a team's choices by self-play, PPO with GAE.

HCSP's second stage: Zhang et al. (2025), Mastering multi-drone volleyball through hierarchical
co-self-play, https://arxiv.org/abs/2505.04317; code thu-uav/HCSP (read). A team decides when
somebody touches the ball or it crosses the net; scripted controllers fly in between. As there,
rewards between two decisions are summed, and the discount is per decision, however long it lasted.
Games: "plane" (one against one in a vertical plane), "1v1", "3v3".

    python -m launchers.train --config=configs/volleyball.py:1v1 --workdir=runs/volley
    python -m launchers.arena --game=Volleyball-v1 --options=max_steps_in_episode=32 \\
        --players=expert,random,runs/volley#all --matches=2000

"expert" is the scripted planner over the same skills. 1v1 (100 updates, three seeds in 1 min 22 s
of processor time): 1,794, 1,786 and 1,764 of 2,000 matches won against it, half on each side, 173,
182 and 202 lost; greedily (--greedy, as HCSP is measured) mean returns of 0.849, 0.839 and 0.810.

3v3 imitates the planner for 60 updates, then plays itself for 80 (three seeds in 3 min 20 s).
Seeds differ: mean return against the planner over 2,000 matches, sampled, -0.090, 0.313 and -0.044
(+- 0.03); greedy, 0.000, 0.814 and 0.000: matches of the first and third all last to the limit of
15 s. Imitation by itself loses 0.965 a match, sampled. Without it
(--config.warm_start.updates=0 --config.updates=100, one seed): -0.238, greedy 0.420; there the
second drone often takes the first touch in place of the first one, and plays to the attacker at
once (`agentrl.evaluation.touches`, in the report). With it roles stay the planner's.

In the plane (40 updates, three seeds in 43 s of processor time) the policies win 416 and lose 9 of
1,000 matches against the planner, greedily, in each of three seeds; the rest are cut. From there on
planners keep the ball up for 15 s: `configs/volleyball_levels.py` goes on.
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.training.base_config import base_config
from agentrl.training.config import env_section, section

GAMES = {
    "plane": ("PlanarVolleyball-v1", {}),
    "1v1": ("Volleyball-v1", {"teams": "1v1"}),
    # As in HCSP, a touch brings a tenth of a win.
    "3v3": ("Volleyball-v1", {"teams": "3v3", "touch_reward": 0.1}),
}


def get_config(game: str = "plane") -> ml_collections.ConfigDict:
    if game not in GAMES:
        raise ValueError(f"configs/volleyball.py:{game}: expected one of {', '.join(GAMES)}")
    config = base_config()
    config.num_seeds = 3
    config.updates = {"plane": 200, "1v1": 100, "3v3": 140}[game]
    config.log_every = 20
    config.checkpoint.update(every=20, keep=10)
    name, options = GAMES[game]
    # Some decisions more than a rally of 15 s has between scripted planners.
    config.env = env_section(name, **options, max_steps_in_episode=32)
    config.policy = section(policies.mlp, hidden=(64, 64), critic="separate")
    if game == "3v3":
        # A choice for each drone, as HCSP's: 13 outputs for 72 joint actions.
        config.policy = section(policies.factored, choices=(6, 3, 4), hidden=(64, 64))
        # Imitation of the planner first: alone it loses nearly all its matches, yet with it
        # self-play gets farther than without (see above).
        config.warm_start.update(updates=60, episodes=128, learning_rate=2e-3)
    config.rollout = section(rollout.matches, num_groups=256)
    config.advantage = section(advantages.gae, gamma=0.995, lam=0.95)
    # Rows are most of them empty, of matches that are over: they are left out by the microbatch.
    config.learner.update(epochs=2, minibatches=4, microbatch=1024, entropy_coefficient=0.02)
    config.optimizer.update(learning_rate=1e-3, schedule="linear")
    return config
