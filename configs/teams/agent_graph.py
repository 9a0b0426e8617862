r"""AgentGraph-v1: graphs of agents as actions, edit by edit over arrays, one reply in words.

MAS-Orchestra (code read), over arrays: an edit adds an agent with its kind, its nodes and whom it
reads. "horizon": chains of 2 to 12 nodes; "parallel": 6 to 8 nodes in 1 to 3 graphs; "solo": one
agent; "perfect": agents that make no mistakes; "robustness": tampered constants.

    python -m launchers.train --config=configs/teams/agent_graph.py:horizon --workdir=runs/graph
    python -m launchers.evaluate --workdir=runs/graph --episodes=4096
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section

TASKS = {
    "horizon": {"nodes": (2, 12)},
    "parallel": {"nodes": (6, 8), "parts": (1, 3), "chained": 0.5},
    "solo": {"nodes": (2, 12), "agents": 1},
    "perfect": {"nodes": (2, 12), "right": 1.0, "tired": 1.0},
    "robustness": {"nodes": (6, 8), "tampered": (0, 2)},
}
VARIANTS = tuple(TASKS)


def get_config(variant: str = "horizon") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = base_config()
    config.num_seeds = 3
    config.updates = 200
    config.log_every = 20
    config.env = env_section("AgentGraph-v1", price=0.01, **TASKS[variant])
    config.policy = section(policies.mlp, hidden=(128, 128), critic="none")
    config.rollout = section(rollout.episodes, num_groups=32, group_size=16, mask_illegal=True)
    # Not divided, and a bonus that falls: as in orchestra.py.
    config.advantage = section(advantages.grpo, normalize="mean")
    config.learner.update(minibatches=4, normalize_advantage="batch")
    config.objective.entropy.update(weight=0.1, final_weight=0.001)
    config.optimizer.learning_rate = 1e-3
    config.evaluation.update(every=200, episodes=4096)
    return config
