"""Volleyball of drones on two levels: planner and skills learn together by self-play.

HCSP's third stage: Zhang et al. (2025), Mastering multi-drone volleyball through hierarchical
co-self-play, https://arxiv.org/abs/2505.04317; code thu-uav/HCSP (read). Planners choose skills at
events, drones fly them at 50 Hz; both are agents of one game. A skill adds to the command of the
scripted controllers (env.residual), so that all begins exactly at the scripted skills and the
planner of the second stage; which parts train is policy.train (HCSP's release: the planner and one
skill), what was not in use in a turn learns nothing from it, and the skills, not the planner, are
tied to where they began by their exact KL, here as a term of the loss, in HCSP of the reward.
Credit by HiPER's hierarchical advantage, in HCSP by a GAE for each level. Opponents: members of a
pool, of which the first is where training starts. Games: "plane", "1v1", "3v3" (advantage gae
there). Stages as one config: `configs/volleyball_stages.py`.

    python -m launchers.train --config=configs/volleyball.py:plane --workdir=runs/choices \\
        --config.updates=40
    python -m launchers.train --config=configs/volleyball_levels.py:plane --workdir=runs/levels \\
        --config.init_from=planner=runs/choices
    python -m launchers.train --config=configs/volleyball_levels.py:plane --workdir=runs/alone \\
        --config.init_from=planner=runs/choices "--config.policy.train=('planner',)"
    python -m launchers.train --config=configs/volleyball_flat.py:plane --workdir=runs/flat
    python -m launchers.arena --game=PlannedVolleyball-v1 --matches=1000 --greedy \\
        --players=expert,runs/choices#all,runs/alone#all,runs/levels#all,runs/flat#all

Plane, three seeds of each, all greedy, matches of up to 15 s. 1,000 of every pair of players, half
on each side; what the row wins of the column's decided matches, seeds together, with Wilson's
interval of 95 % (of matches: seeds play the same starts). Control steps a seed: 4.2 million of
stage II, 1.5 of III; "alone", the planner trained on for as long over the same skills against the
same kind of pool, 1.8; "flat", without a hierarchy, 6.2 to 7.5. Processor time of three seeds: 43 s
of stage II, 3 min 25 s of "alone"; stage III took 11 minutes on a busy machine.

    stage III against          won   lost     cut
    stage II, its start      3,939  2,360   2,701   0.625 [0.613, 0.637]   seeds 0.534 0.626 0.652
    two stages, as long      3,783  2,418   2,799   0.610 [0.598, 0.622]   seeds 0.578 0.604 0.626
    scripted planner         1,656    746     598   0.689 [0.671, 0.708]   seeds 0.867 0.597 0.693
    flat                     7,933  1,058       9   0.882 [0.876, 0.889]   seeds 0.932 0.856 0.860
    stage II against
    scripted planner         1,248     27   1,725   0.979 [0.969, 0.985]
    flat                     8,604    393       3   0.956 [0.952, 0.960]
    its start longer (alone)   759    342   7,899   0.689 [0.661, 0.716]

(HCSP reports 82.9 % on average against those without its levels or learning, 71.5 % against two
stages.) It is no order: over scripted skills planners keep the ball up, and win more of who makes
mistakes by himself; a hit that learns to attack makes some of its own. The scripted skills are
given to all but flat, whose comparison is of steps, not of what is known beforehand.

1v1 in the same way (volleyball.py:1v1 with its 100 updates, then :1v1 here; the arena with
--options=teams=1v1), three seeds. Of processor time for three: stage III 4 min 12 s, "alone" 3 min
56 s; control steps a seed after stage II: 1.5 and 1.6 to 1.7 million.

    stage III against          won   lost  others
    stage II, its start      7,658  1,327      15   0.852 [0.845, 0.859]   seeds 0.893 0.924 0.739
    two stages, as long      4,721    664      15   0.877 [0.868, 0.885]   seeds 0.929 0.911 0.791
    scripted planner         2,635    356       9   0.881 [0.869, 0.892]   seeds 0.936 0.937 0.771
    flat                     5,379     21       0   0.996 [0.994, 0.997]
    stage II against
    scripted planner         2,741    214      45   0.928 [0.918, 0.936]   seeds 0.933 0.930 0.920
    alone against
    scripted planner         1,628    135      37   0.923 [0.910, 0.935]   seeds 0.888 0.938 0.944

("Alone" and "flat" met in 600 matches of every pair, the others in 1,000; stage II won all 5,400
against flat, whose 240 updates are 4.9 to 5.1 million control steps.) What stage III gains is the
hit's: the planner by itself ends where it began, as far as the scripted one tells. 3v3 on two
levels was not run.

In the plane against the latest policy instead of a pool (--config.pool.capacity=0
"--config.rollout={'name': 'episodes', 'num_groups': 32, 'group_size': 1}") attack and defence
take turns within a run, and stage III wins 0.530 [0.517, 0.542] of stage II, 0.616 [0.596, 0.634]
of the scripted planner, 0.855 [0.848, 0.862] of flat, and 0.473 [0.460, 0.485] of a planner
trained on alone in that way.
"""

import ml_collections

import envs
from agentrl import advantages, losses, policies, rollout
from agentrl.config import base_config, env_section, section, term

GAMES = ("plane", "1v1", "3v3")


def get_config(game: str = "plane") -> ml_collections.ConfigDict:
    if game not in GAMES:
        raise ValueError(f"configs/volleyball_levels.py:{game}: expected one of {', '.join(GAMES)}")
    config = base_config()
    config.num_seeds = 3
    config.updates = 160
    config.log_every = 10
    config.checkpoint.update(every=20, keep=10)
    # Matches of up to 8 s, and the planners' turns.
    config.env = env_section(
        "PlannedVolleyball-v1", teams=game, residual=0.3, max_seconds=8.0, max_steps_in_episode=440
    )
    layout = envs.make("PlannedVolleyball-v1", teams=game)[0].layout
    config.policy = section(
        policies.hierarchy, **layout, train=("planner", "hit"), hidden=(32, 32), log_std=-2.0
    )
    # Against the latest alone, attack and defence take turns within a run.
    config.rollout = section(
        rollout.episodes,
        num_groups=32,
        opponent="pool",
        members=4,
        mask_illegal=False,
        group_size=1,
    )
    config.pool.capacity = 8
    # `hae` knows of one executor to a planner.
    config.advantage = section(advantages.hae_by_turn, gamma=0.998, lam=0.95)
    config.objective.value.weight = 0.5
    if game == "3v3":
        config.advantage = section(advantages.gae, gamma=0.998, lam=0.95)
        config.objective.value.weight = 0.5
    config.learner.update(epochs=2, minibatches=4, microbatch=1760, normalize_advantage="role")
    config.objective.entropy.weight = 0.002
    config.objective.kl = term(losses.exact_kl, weight=0.01)
    config.optimizer.update(learning_rate=1e-3)
    return config
