"""Jobs-v1: what unequal durations do to a gradient, and what weights by duration do about it.

Yang et al. (2025), https://arxiv.org/abs/2509.01684 (from notes). Each job is credited with its own
reward: less the batch's mean ("mean") or not ("none"); the job at the end of a shift is finished
("overtime") or fails ("cut"); "weighted" multiplies by `advantages.duration_aware`. "arrival":
what has ended 4 after the workers began. "rare": jobs that hardly ever succeed.

    python -m launchers.train --config=configs/credit/jobs.py:overtime_mean --workdir=runs/jobs

Five seeds, two CPU cores: 25 s each. Good jobs, of 1: 0.85 in six of the eight shifts, 0.75 in
"none_weighted"; arrival 0.43, arrival_weighted and arrival_early 0.57, their best (README.md).
"""

import ml_collections

from agentrl import advantages, policies, rewards, rollout
from agentrl.config import base_config, check_variant, env_section, section

SHIFTS = tuple(
    f"{end}_{baseline}{weight}"
    for end in ("overtime", "cut")
    for baseline in ("mean", "none")
    for weight in ("", "_weighted")
)
ARRIVALS = ("arrival", "arrival_weighted", "arrival_early")
RARE = ("rare", "rare_milestones")
VARIANTS = (*SHIFTS, *ARRIVALS, *RARE)


def get_config(variant: str = "overtime_mean") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = base_config()
    config.num_seeds = 5
    config.updates = 300
    config.log_every = 30
    config.env = env_section("Jobs-v1", overtime=variant.startswith("overtime"))
    config.policy = section(policies.mlp, hidden=(32,), critic="none")
    config.rollout = section(rollout.episodes, num_groups=8, group_size=8)
    # gamma=0: a job has no part in the jobs after it.
    if "_none" in variant:
        config.advantage = section(rewards.discounted_return, gamma=0.0)
    else:
        config.advantage = section(advantages.reinforce_pp, gamma=0.0)
    config.learner.update(minibatches=1, epochs=1, normalize_advantage="none")
    if variant.endswith("weighted"):
        config.reweighting.duration_aware = section(advantages.duration_aware, cap=None)
    config.optimizer.learning_rate = 3e-3
    config.evaluation.update(every=300, episodes=1024)
    if variant in ARRIVALS:
        # Easy jobs and hard ones, in half of which the slow method is better. Jobs are finished
        # after the deadline, and come too late for the update.
        chances = ((0.8, 0.95), (0.2, 0.05))
        config.env.update(durations=(1.0, 4.0), chances=chances, shift=4.0, overtime=True)
        config.env.max_steps_in_episode = 4
        longest = 4.0 if variant == "arrival_early" else 0.0
        config.filters.arrived = section(advantages.arrived_turns, deadline=4.0, longest=longest)
        config.filters.arrived.when = "before"
        config.rollout.num_groups = 32
    if variant in RARE:
        paid = 0.1 if variant == "rare_milestones" else 0.0
        config.env.update(chances=((0.001, 0.01), (0.01, 0.001)), milestone_reward=paid)
    return config
