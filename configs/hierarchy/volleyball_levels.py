r"""Volleyball of drones on two levels: planner and skills learn together by self-play.

HCSP's third stage: Zhang et al. (2025), https://arxiv.org/abs/2505.04317; code thu-uav/HCSP (read).
Skills are residuals on scripted controllers, tied to their start by KL; credit is HiPER's (3v3:
GAE); opponents come from a pool. Games: "plane", "1v1", "3v3". All commands: README.md.

    python -m launchers.train --config=configs/hierarchy/volleyball_levels.py:plane \
        --workdir=runs/levels \
        --config.init_from=planner=runs/choices

Two CPU cores, 11 minutes (plane) and 4 min 12 s (1v1) for three seeds. Expected share of the
decided matches against stage II: 0.625 (plane), 0.852 (1v1), 0.895 (3v3, 31 busy minutes).
"""

import ml_collections

import envs
from agentrl import advantages, losses, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section, term

VARIANTS = ("plane", "1v1", "3v3")


def get_config(variant: str = "plane") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = base_config()
    config.num_seeds = 3
    config.updates = 160
    config.log_every = 10
    config.checkpoint.update(every=20, keep=10)
    # Matches of up to 8 s, plus the planners' turns.
    config.env = env_section(
        "PlannedVolleyball-v1",
        teams=variant,
        residual=0.3,
        max_seconds=8.0,
        max_steps_in_episode=440,
    )
    layout = envs.make("PlannedVolleyball-v1", teams=variant)[0].layout
    config.policy = section(
        policies.hierarchy, **layout, train=("planner", "hit"), hidden=(32, 32), log_std=-2.0
    )
    # Against the latest policy alone, attack and defence alternate within a run.
    config.rollout = section(
        rollout.episodes,
        num_groups=32,
        opponent="pool",
        members=4,
        mask_illegal=False,
        group_size=1,
    )
    config.pool.capacity = 8
    # `hae` supports one executor per planner.
    config.advantage = section(advantages.hae_by_turn, gamma=0.998, lam=0.95)
    config.objective.value.weight = 0.5
    if variant == "3v3":
        config.advantage = section(advantages.gae, gamma=0.998, lam=0.95)
        config.objective.value.weight = 0.5
    config.learner.update(epochs=2, minibatches=4, microbatch=1760, normalize_advantage="role")
    config.objective.entropy.weight = 0.002
    config.objective.kl = term(losses.exact_kl, weight=0.01)
    config.optimizer.update(learning_rate=1e-3)
    return config
