"""Volleyball of drones, HCSP's three stages as one config: skills, a planner, all together.

Zhang et al. (2025), Mastering multi-drone volleyball through hierarchical co-self-play,
https://arxiv.org/abs/2505.04317; code thu-uav/HCSP (read). Games: "plane", "1v1", "3v3", over the
scripted skills: "hit" learns what to add to the scripted hit from what matches hand over
(`configs/volleyball_skills.py`); "planner" learns by self-play to choose among the skills, which
stay; "both" learns planner and hit together, tied to what it begins from
(`configs/volleyball_levels.py`). In "plane_scratch" no command is scripted: "goto" and "hit" learn
to fly from nothing, the planner over them, then planner and hit together. Of the scripts "goto"
sees the places that their matches hand over: without these it fails in matches (below).

    python -m launchers.train --config=configs/volleyball_stages.py:plane --workdir=runs/volley

trains runs/volley/hit, runs/volley/planner and runs/volley/both, each a run to be evaluated by
itself. The same command resumes, in whichever stage it was stopped.

"plane_scratch" with seeds 100 to 102 of each stage (--config.stages.goto.seed=100, ...), greedy,
1,000 matches of each pair, beside the scripted planner over scripted skills and
`configs/volleyball_flat.py`, self-play from nothing without a hierarchy:

                          won   lost    cut   of decided, Wilson's 95 %   by seed
    II against scripted      0     12  2,988
    II against flat      7,066  1,921     13   0.786 [0.778, 0.795]       .692 .833 .833
    III against II       4,794  2,958  1,248   0.618 [0.608, 0.629]       .500 .830 .613
    III against scripted   889  2,001    110   0.308 [0.291, 0.325]       .573 .003 .313
    III against flat     6,775  2,225      0   0.753 [0.744, 0.762]       .832 .833 .593

(Greedy players and starts within 5 cm make matches of a pair much alike: there are three seeds, not
thousands of samples.) Skills on 1,024 tasks: goto 1.000 of hand-overs in each seed; hit 0.837,
0.838, 0.850 beside the scripted 0.764, and 1.000 of hand-overs beside 0.523. Control steps a seed:
skills 3.3 million each, stage II 0.9 to 1.4, III 0.7 to 1.3, flat 6.2 to 7.5 in all.

With starts of "goto" near its places instead, seeds 0 to 2 and 100 to 102: stage II beats the
scripted planner in two of six seeds (197 to 1 and 178 to 20 of 200 matches), is level in three and
loses all matches in the sixth, whose goto holds in 0.754 of the hand-overs; stage III mends nothing
there. (The hand-overs were then tried on seeds 100 to 102 again: on fresh ones they are untested.)
At the rate of 1e-3, which is right over scripted skills, stage III lost 0.809 of the decided
matches against II (seeds 0 to 2).

"plane": the hit that learnt from hand-overs first (1.000 there) does not miss any more; two teams
of it play 2,980 of 3,000 matches against the script to the limit, and stages II and III 8,815 of
9,000 against each other (II won the other 185): with nobody who misses there is nothing to learn.
"""

import ml_collections

from configs import volleyball_levels, volleyball_skills

SCRATCH = "plane_scratch"


def get_config(game: str = "plane") -> ml_collections.ConfigDict:
    if game not in (*volleyball_levels.GAMES, SCRATCH):
        raise ValueError(
            f"configs/volleyball_stages.py:{game}: expected one of "
            f"{', '.join(volleyball_levels.GAMES)}, {SCRATCH}"
        )
    stages = _scratch() if game == SCRATCH else _scripted(game)
    return ml_collections.ConfigDict({"stages": stages})


def _scripted(game: str) -> dict[str, ml_collections.ConfigDict]:
    """What is learnt is added to the scripted controllers' commands."""
    hit = volleyball_skills.get_config(f"{game}_hit")
    planner, both = volleyball_levels.get_config(game), volleyball_levels.get_config(game)
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
    # At 1e-3 the hit loses what it knew: there is no script under it.
    both.optimizer.learning_rate = 2e-4
    return {**skills, "planner": planner, "both": both}
