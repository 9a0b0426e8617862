r"""ToolFlow-v1: a planner is trained in the loop of a system whose other modules are frozen.

Flow-GRPO (AgentFlow, https://arxiv.org/abs/2510.05592): the outcome goes to every turn of the
planner, which reads the question and a memory of facts, each turn a row of its own. "flow_grpo":
statistics over rollouts, as in the paper; "row_statistics": over the turns of all rollouts, as
released; "concatenated": no memory, the transcript is one row of a policy that remembers;
"remembering": that policy with the memory; "forgetful": neither, single turns without memory.

    python -m launchers.train --config=configs/teams/agent_flow.py --workdir=runs/agent_flow

Five seeds, 2 to 15 minutes. Success of 4,096 questions: untrained 0.304, flow_grpo 0.961,
row_statistics 0.962, remembering 0.941, concatenated 0.889, forgetful 0.812 (README.md).
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section
from agentrl.methods.rollout_weight import rollout_weight

RECURRENT = ("concatenated", "remembering")
VARIANTS = ("flow_grpo", "row_statistics", *RECURRENT, "forgetful")


def get_config(variant: str = "flow_grpo") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = base_config()
    config.num_seeds = 5
    config.updates = 300
    config.log_every = 10
    config.env = env_section("ToolFlow-v1", memory=variant not in ("concatenated", "forgetful"))
    config.policy = section(policies.mlp, hidden=(64, 64), critic="none")
    if variant in RECURRENT:
        config.policy = section(policies.gru, hidden=(64,), memory_size=64, critic="none")
    # The paper has 32 questions of 8 rollouts.
    acting = {"num_groups": 32, "group_size": 8, "mask_illegal": True}
    frozen = {"side": "planner", "opponent": "expert"}
    config.rollout = section(rollout.episodes, **acting, **frozen)
    statistics = "turn" if variant == "row_statistics" else "stream"
    config.advantage = section(advantages.grpo, statistics=statistics)
    config.objective.policy.update(clip_low=0.2, clip_high=0.3)
    config.objective.kl.weight = 0.001
    if variant not in RECURRENT:
        config.components.rollout_weight = section(rollout_weight)
        config.objective.policy.scale = config.objective.kl.scale = "rollout_weight"
    config.learner.update(minibatches=4, aggregation="row_mean", normalize_advantage="none")
    config.optimizer.learning_rate = 1e-3
    # The first evaluation is of the planner before training.
    config.evaluation.update(every=300, at_start=True, episodes=4096, **frozen)
    return config
