"""Volleyball of drones on two levels: planner and skills learn together by self-play.

HCSP's third stage: Zhang et al. (2025), Mastering multi-drone volleyball through hierarchical
co-self-play, https://arxiv.org/abs/2505.04317; code thu-uav/HCSP (read). Planners choose skills at
events, drones fly them at 50 Hz; both are agents of one game. A skill adds to the command of the
scripted controllers (env.residual), so that all begins exactly at the scripted skills and the
planner of the second stage; which parts train is policy.train (HCSP's release: the planner and one
skill), what was not in use in a turn learns nothing from it, and the skills, not the planner, are
tied to where they began by their exact KL, here as a term of the loss, in HCSP of the reward.
Credit by HiPER's hierarchical advantage, in HCSP by a GAE for each level. Opponents: itself, or
frozen members (rollout.opponent="pool"). Games: "plane", "1v1", "3v3" (advantage gae there).

    python -m launchers.train --config=configs/volleyball.py:plane --workdir=runs/choices \\
        --config.updates=120
    python -m launchers.train --config=configs/volleyball_levels.py:plane --workdir=runs/levels \\
        --config.init_from=planner=runs/choices
    python -m launchers.arena --game=PlannedVolleyball-v1 --options=teams=plane,residual=0.3 \\
        --players=expert,runs/levels#all --matches=1000 --greedy

Plane, 1,000 matches of up to 15 s of each pair, half on each side, greedy; wins, losses, the rest
cut; share of wins among decided matches with Wilson's interval. Three seeds of 160 updates (12
minutes together on a busy machine) from planners of 120 updates:
    against the scripted planner: 400 to 154, 812 to 110, 389 to 111;
    against the planner that it began from (seed 0's, by one update at optimizer.learning_rate=0),
    scripted skills: 253 to 200, 0.558 [0.512, 0.604]; 449 to 197, 0.695 [0.658, 0.729]; 333 to 219,
    0.603 [0.562, 0.643];
    against that planner trained alone for as long (policy.train=("planner",), one seed): 411 to
    189, 0.685 [0.647, 0.721]; 393 to 179, 0.687 [0.648, 0.724]; 593 to 180, 0.767 [0.736, 0.796].
It is not an order: those planners have mean returns of 0.589 and 0.403 against the scripted one,
more than two of the three seeds (0.246, 0.702, 0.278). Attack and defence take turns within a run
(truncation_rate falls and rises), as self-play against the latest policy does.
"""

import ml_collections

import envs
from agentrl import advantages, policies, rollout
from agentrl.training import credit
from agentrl.training.base_config import base_config
from agentrl.training.config import env_section, section

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
    config.rollout = section(rollout.matches, num_groups=32, mask_illegal=False)
    # `hae` knows of one executor to a planner.
    config.advantage = section(credit.hae, gamma=0.998, lam=0.95)
    if game == "3v3":
        config.advantage = section(advantages.gae, gamma=0.998, lam=0.95)
    config.learner.update(
        epochs=2,
        minibatches=4,
        microbatch=1760,
        normalize_advantage="role",
        entropy_coefficient=0.002,
        kl_coefficient=0.01,
        kl_estimator="exact",
    )
    config.optimizer.update(learning_rate=1e-3)
    return config
