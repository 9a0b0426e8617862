r"""Research-v1: a planner calls workers for facts, or one agent looks for them alone.

"matpo": workers inherit the planner's advantage (arXiv:2510.04678); "m_grpo": each role is compared
with its like (arXiv:2511.13288), in "roles" with a network each, "aligned" with 64 workers'
episodes per question, "dr_mas" per turn, "consoled" with a little for each tool of a failure.
"solo": alone; "local_first": and early openings of the web cost. "planner", "workers": beside the
expert; "staged": over frozen workers, --config.init_from=workers=DIR (HierSearch, 2508.08088).

    python -m launchers.train --config=configs/teams/research.py:matpo --workdir=runs/research

Five seeds, two CPU cores, 70 s. Success: matpo, m_grpo, roles 0.93, staged 0.92, solo 0.87, dr_mas
0.30 (four seeds stop asking); more in README.md.
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, check_variant, env_section, roles_section, section
from agentrl.methods.alignment import alignment
from agentrl.methods.tools_used import tools_used

ESTIMATORS = {
    "matpo": advantages.matpo,
    "m_grpo": advantages.m_grpo,
    "dr_mas": advantages.dr_mas,
    "solo": advantages.grpo,
}
VARIANTS = (
    *ESTIMATORS, "local_first", "aligned", "roles", "consoled", "planner", "workers", "staged",
)  # fmt: skip


def get_config(variant: str = "matpo") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = base_config()
    config.num_seeds = 5
    config.updates = 300
    config.log_every = 30
    alone = variant in ("solo", "local_first")
    # Without a price of calls a planner asks both kinds always; at 0.02 it asks nobody.
    config.env = env_section("Research-v1", call_price=0.005)
    if alone:
        config.env = env_section("SoloResearch-v1")
    network = section(policies.mlp, hidden=(64, 64), critic="none")
    config.policy = network
    if variant in ("roles", "consoled", "staged", "workers"):
        train = {"staged": ("planner",), "workers": ("workers",)}
        train = train.get(variant, ("planner", "workers"))
        config.policy = roles_section(train, planner=network, workers=network)
        config.policy.roles.workers.agents = tuple(range(1, 7))
    acting = {"num_groups": 32, "group_size": 16, "mask_illegal": True}
    if variant in ("planner", "workers"):
        acting.update(side=variant, opponent="expert")
    config.rollout = section(rollout.episodes, **acting)
    shared = advantages.grpo if alone else advantages.m_grpo
    config.advantage = section(ESTIMATORS.get(variant, shared))
    if variant == "aligned":
        config.components.alignment = section(alignment, target=64)
        config.reweighting.as_often = {}
    if variant in ("consoled", "local_first"):
        config.components.tools_used = section(tools_used)
    if variant == "local_first":
        config.reward.local_first = {"web": (3, 4, 5)}
    if variant == "consoled":
        config.reward.consolation = {"share": 0.1}
    config.learner.update(minibatches=4, normalize_advantage="batch")
    config.objective.entropy.weight = 0.01
    config.optimizer.learning_rate = 1e-3
    config.evaluation.update(every=300, episodes=4096)
    if variant in ("planner", "workers"):
        config.evaluation.update(side=variant, opponent="expert")
    return config
