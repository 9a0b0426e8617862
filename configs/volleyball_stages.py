"""Volleyball of drones, HCSP's three stages as one config: a skill, a planner, both together.

Zhang et al. (2025), Mastering multi-drone volleyball through hierarchical co-self-play,
https://arxiv.org/abs/2505.04317; code thu-uav/HCSP (read). "hit" learns what to add to the scripted
hit from what matches hand over (`configs/volleyball_skills.py`); "planner" learns by self-play to
choose among the skills, which stay; "both" learns planner and hit together, tied to what it begins
from (`configs/volleyball_levels.py`). Games: "plane", "1v1", "3v3".

    python -m launchers.train --config=configs/volleyball_stages.py:plane --workdir=runs/volley

trains runs/volley/hit, runs/volley/planner and runs/volley/both, each a run to be evaluated by
itself. The same command resumes, in whichever stage it was stopped.
"""

import ml_collections

from configs import volleyball_levels, volleyball_skills


def get_config(game: str = "plane") -> ml_collections.ConfigDict:
    hit = volleyball_skills.get_config(f"{game}_hit")
    planner, both = volleyball_levels.get_config(game), volleyball_levels.get_config(game)
    hit.num_seeds = planner.num_seeds
    hit.updates = 60
    hit.env.update(residual=planner.env.residual, starts="matches")
    hit.policy.update(hidden=planner.policy.hidden, log_std=planner.policy.log_std)
    planner.policy.train = ("planner",)
    planner.init_from = "hit=stage:hit"
    both.init_from = "stage:planner"
    stages = {"hit": hit, "planner": planner, "both": both}
    return ml_collections.ConfigDict({"stages": stages})
