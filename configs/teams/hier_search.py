r"""HierResearch-v1: a local and a web agent learn apart, then a planner over both, frozen.

HierSearch (https://arxiv.org/abs/2508.08088): F1; a failure has a tenth of its share of tools used.
"local", "web": that agent beside the expert; "planner": over these agents, through the knowledge
refiner, "planner_unrefined": without it; "stages": local, web, planner; "together": all at once.

    python -m launchers.train --config=configs/teams/hier_search.py:stages --workdir=runs/hier
    python -m launchers.train --config=configs/teams/hier_search.py:planner_unrefined \
        --workdir=runs/hier_unrefined --config.init_from=local=runs/hier/local,web=runs/hier/web

Three seeds, 4 to 5 minutes a stage on two busy CPU cores. Success: local 1.000, web 1.000, planner
0.865, planner_unrefined 0.632, together 0.896 (README.md).
"""

import ml_collections

from agentrl import advantages, policies, rewards, rollout
from agentrl.config import base_config, check_variant, env_section, roles_section, section
from agentrl.methods.tools_used import tools_used

AGENTS = ("local", "web")
VARIANTS = ("stages", *AGENTS, "planner", "planner_unrefined", "together")


def get_config(variant: str = "stages") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    if variant == "stages":
        config = ml_collections.ConfigDict()
        config.stages = {name: get_config(name) for name in (*AGENTS, "planner")}
        config.stages.planner.init_from = "local=stage:local,web=stage:web"
        return config
    config = base_config()
    config.num_seeds = 3
    config.updates = 100 if variant in AGENTS else 200
    config.log_every = 10
    # Without a price of calls a planner asks both kinds always.
    refined = variant != "planner_unrefined"
    config.env = env_section("HierResearch-v1", call_price=0.005, refined=refined)
    network = section(policies.mlp, hidden=(64, 64), critic="none")
    everyone = ("planner", *AGENTS)
    train = everyone if variant == "together" else (variant.removesuffix("_unrefined"),)
    config.policy = roles_section(train, **dict.fromkeys(everyone, network))
    acting = {"num_groups": 16, "group_size": 16, "mask_illegal": True}
    if variant in AGENTS:
        acting.update(side=variant, opponent="expert")
        config.evaluation.update(side=variant, opponent="expert")
    config.rollout = section(rollout.episodes, **acting)
    config.advantage = section(advantages.grpo)
    config.components.tools_used = section(tools_used)
    config.reward.consolation = section(rewards.consolation)
    config.learner.update(minibatches=4, normalize_advantage="batch")
    config.objective.entropy.weight = 0.01
    config.optimizer.learning_rate = 1e-3
    config.evaluation.update(every=config.updates, at_start=True, episodes=4096)
    return config
