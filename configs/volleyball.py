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

3v3 imitates the planner for 300 updates until it is its equal (0.001, 0.017, -0.018, 0.004, -0.034
a match, sampled), then plays 40 updates against a pool of which that imitation is the first member.
Five seeds (--config.num_seeds=5, 11 minutes on a busy machine), 1,000 matches each against the
planner, half on each side, won and lost:

    seed        0          1          2          3          4
    sampled     718, 248   791, 147   712, 254   731, 224   716, 255
    greedy      722, 243   832, 101   722, 243   722, 243   722, 243

All possessions but a few are a pass, a set and an attack that comes over: whether it wins is
decided by its side, and by where the others' first drone waits. These five attack to the right
alone; four of them play the same way, seed 1 waits elsewhere and wins 0.460 a match of them,
greedily. Roles stay the planner's.

What was tried before, mean returns against the planner. Imitation of 60 updates (which loses 0.965
a match, sampled), then 80 against the latest self with a tenth of a win for each touch, seeds 0 to
2: greedily 0.000, 0.814, 0.000, where a zero says that every match is cut. These attack to the left
alone, which the planner's first drone always returns, and wait where the planner's attack comes. On
seeds 100 to 102, from the imitation of 300 updates, sampled: 80 updates in the same way 0.808,
0.657, 0.562, and without pay for touches 0.709, -0.211, -0.064 (greedily the second seed is cut
again). Against a pool nobody settles so early, but longer is not better: 40 updates 0.627, 0.542,
0.533; 80 with a bonus down to 0.002 0.812, 0.044, 0.758, the second seed now ahead of the pool's
later members by 0.3 to 0.8 and no more of the planner; 160 with a member every 40, prioritised,
0.008, 0.845, 0.002. Whom nobody beats need not beat anybody.

Without imitation (--config.warm_start.updates=0 --config.updates=100, one seed, against the latest
self): -0.238, greedy 0.420; there the second drone often takes the first touch in place of the
first one, and plays to the attacker at once (`agentrl.evaluation.touches`, in the report).

In the plane (40 updates, three seeds in 43 s of processor time) the policies win 416 and lose 9 of
1,000 matches against the planner, greedily, in each of three seeds; the rest are cut. From there on
planners keep the ball up for 15 s: `configs/volleyball_levels.py` goes on.
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, env_section, section

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
    config.updates = {"plane": 200, "1v1": 100, "3v3": 340}[game]
    config.log_every = 20
    config.checkpoint.update(every=20, keep=10)
    name, options = GAMES[game]
    # Some decisions more than a rally of 15 s has between scripted planners.
    config.env = env_section(name, **options, max_steps_in_episode=32)
    config.policy = section(policies.mlp, hidden=(64, 64), critic="separate")
    config.rollout = section(rollout.episodes, num_groups=256, group_size=1, mask_illegal=True)
    config.advantage = section(advantages.gae, gamma=0.995, lam=0.95)
    config.objective.value.weight = 0.5
    # Rows are most of them empty, of matches that are over: they are left out by the microbatch.
    config.learner.update(epochs=2, minibatches=4, microbatch=1024)
    config.objective.entropy.weight = 0.02
    config.optimizer.update(learning_rate=1e-3, schedule="linear")
    if game == "3v3":
        # A choice for each drone, as HCSP's: 13 outputs for 72 joint actions.
        config.policy = section(policies.factored, choices=(6, 3, 4), hidden=(64, 64))
        # The planner's equal first, so that what self-play adds is above it (see above).
        config.warm_start.update(updates=300, learning_rate=2e-3)
        config.expert.update(episodes=64)
        config.rollout.update(opponent="pool", members=4)
        config.pool.update(capacity=4, every=20, draw="uniform")
        config.objective.entropy.update(weight=0.05, final_weight=0.01)
    return config
