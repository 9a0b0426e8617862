r"""AgentGraph-v1: graphs of agents as actions, edit by edit, by a policy over arrays.

MAS-Orchestra (code read): "horizon", chains of 2 to 12 nodes; "parallel", 4 to 6 nodes in 1 or 2
graphs. MasHost: "hrpo", the same, and an edit is paid what the agent that it added is worth, by
leaving it out. AgentConductor: "conductor", layers, density by difficulty, a second team after what
the first had wrong; "one_bound", one bound of density for all; "one_round", no second team.

    python -m launchers.train --config=configs/teams/agent_graph.py:horizon --workdir=runs/graph
    python -m launchers.evaluate --workdir=runs/graph --episodes=4096
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section
from agentrl.methods.edit_marginals import edit_marginals

PARALLEL = {"nodes": (4, 6), "parts": (1, 2), "chained": 0.5, "agents": 3, "cap": 2}
CONDUCTOR = {
    "nodes": (2, 8), "tampered": (0, 1), "agents": 3, "cap": 2, "layered": True, "rounds": 2,
    "dense": 0.5, "invalid": -1.0,
}  # fmt: skip
TASKS = {
    "horizon": {"nodes": (2, 12)},
    "parallel": PARALLEL,
    "hrpo": PARALLEL,
    "conductor": CONDUCTOR,
    "one_bound": CONDUCTOR | {"medium": 0.35, "hard": 0.35},
    "one_round": CONDUCTOR | {"rounds": 1},
}
VARIANTS = tuple(TASKS)


def get_config(variant: str = "horizon") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = base_config()
    large = variant == "horizon"
    config.num_seeds = 3 if large else 2
    config.updates = 200 if large else 100
    config.log_every = 20
    config.env = env_section("AgentGraph-v1", price=0.01, **TASKS[variant])
    width = 128 if large else 64
    config.policy = section(policies.mlp, hidden=(width, width), critic="none")
    config.rollout = section(
        rollout.episodes, num_groups=32 if large else 16, group_size=16,
        mask_illegal=True,
    )  # fmt: skip
    # Not divided, and a bonus that falls: as in orchestra.py.
    config.advantage = section(advantages.grpo, normalize="mean")
    if TASKS[variant] is PARALLEL:
        # Without a weight of the edits `hrpo` is GRPO; the component counts for both.
        config.components.edit_marginals = section(edit_marginals)
        weight = 1.0 * (variant == "hrpo")
        config.advantage = section(advantages.hrpo, edit_weight=weight, normalize="mean")
    config.learner.update(minibatches=4, normalize_advantage="batch")
    config.objective.entropy.update(weight=0.1, final_weight=0.001)
    config.optimizer.learning_rate = 1e-3 if large else 2e-3
    config.evaluation.update(every=config.updates, episodes=4096 if large else 2048)
    return config
