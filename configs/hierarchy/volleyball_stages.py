r"""Volleyball of drones, HCSP's three stages as one config: skills, a planner, all together.

Zhang et al. (2025), https://arxiv.org/abs/2505.04317; code thu-uav/HCSP (read). Games: "plane"
over scripted skills, "plane_scratch" from scratch. Each stage is a run in its own directory
(runs/volley/hit, ...); the same command resumes.

    python -m launchers.train --config=configs/hierarchy/volleyball_stages.py:plane \
        --workdir=runs/volley

Two CPU cores. Expected of "plane_scratch" (three seeds): stages I and II win 0.786 of the decided
matches against self-play without a hierarchy, stage III 0.618 against stages I and II; "plane" ends
in draws. Details: README.md.
"""

import ml_collections

from agentrl.config import check_variant
from configs.hierarchy import volleyball_levels, volleyball_skills

SCRATCH = "plane_scratch"

VARIANTS = ("plane", SCRATCH)


def get_config(variant: str = "plane") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    stages = _scratch() if variant == SCRATCH else _scripted()
    return ml_collections.ConfigDict({"stages": stages})


def _scripted() -> dict[str, ml_collections.ConfigDict]:
    """What is learnt is added to the scripted controllers' commands."""
    hit = volleyball_skills.get_config("plane_hit")
    planner, both = volleyball_levels.get_config("plane"), volleyball_levels.get_config("plane")
    hit.num_seeds = planner.num_seeds
    hit.updates = 60
    hit.env.update(residual=planner.env.residual, starts="matches")
    hit.policy.update(hidden=planner.policy.hidden, log_std=planner.policy.log_std)
    planner.policy.train = ("planner",)
    planner.init_from = "hit=stage:hit"
    both.init_from = "stage:planner"
    return {"hit": hit, "planner": planner, "both": both}


def _scratch() -> dict[str, ml_collections.ConfigDict]:
    """Commands are the skills' own, from nothing."""
    skills = {name: volleyball_skills.get_config(f"plane_{name}") for name in ("goto", "hit")}
    planner, both = volleyball_levels.get_config("plane"), volleyball_levels.get_config("plane")
    for skill in skills.values():
        skill.num_seeds = planner.num_seeds
    skills["goto"].env.starts = "matches"
    for stage in (planner, both):
        stage.env.residual = 0.0
        stage.policy.hidden = skills["hit"].policy.hidden
    planner.policy.train = ("planner",)
    planner.init_from = "goto=stage:goto,hit=stage:hit"
    both.init_from = "stage:planner"
    # At 1e-3 the hit unlearns: there is no script below it.
    both.optimizer.learning_rate = 2e-4
    return {**skills, "planner": planner, "both": both}
