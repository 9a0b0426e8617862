r"""ToolFlow-v1 in words: one transformer is planner, executor, verifier and generator.

"sft": the expert imitated in all modules. "modules": from there Flow-GRPO (AgentFlow,
https://arxiv.org/abs/2510.05592) of an adapter of the planner's, all else frozen. "flow_grpo": of
the whole network beside scripted modules; "concatenated": that on one row, without a memory.

    python -m launchers.train --config=configs/teams/agent_flow_words.py:sft --workdir=runs/flow_sft
    python -m launchers.train --config=configs/teams/agent_flow_words.py:modules \
        --workdir=runs/flow_modules --config.init_from=runs/flow_sft

Three seeds, 2 to 11 minutes on two busy CPU cores. Success after SFT 0.78, 0.56, 0.41; of "modules"
0.76, 0.59, 0.50; "flow_grpo" 0.96, 0.95, 0.61; "concatenated" 0.76, 0.47, 0.31 (README.md).
"""

import ml_collections

from agentrl import advantages, rollout
from agentrl.config import check_variant, env_section, section
from agentrl.methods.rollout_weight import rollout_weight
from configs._shared import language

VARIANTS = ("modules", "flow_grpo", "concatenated", "sft")
# Frozen modules have to know their parts; a planner that learns on is stopped before it does.
WARM = {"sft": 120, "modules": 0}


def get_config(variant: str = "modules") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    whole = variant == "concatenated"
    beside = {"side": "planner", "opponent": "expert"} if variant in VARIANTS[1:3] else {}
    context = rollout.contexts.whole if whole else rollout.contexts.window
    config = language.config_of(
        "sft" if variant == "sft" else "grpo",
        env_section("ToolFlow-v1", memory=not whole),
        section(rollout.episodes, num_groups=16, group_size=8, **beside),
        section(context),
        warm_updates=WARM.get(variant, 60),
        updates=50,
    )
    config.num_seeds, config.log_every = 3, 10
    config.advantage = section(advantages.grpo)
    config.objective.policy.clip_high = 0.3
    config.objective.kl.weight = 0.001
    config.learner.update(aggregation="row_mean", normalize_advantage="none")
    if not whole:
        config.components.rollout_weight = section(rollout_weight)
        config.objective.policy.scale = config.objective.kl.scale = "rollout_weight"
        config.learner.update(microbatch=64, lengths=1)
    if variant == "modules":
        config.policy.update(lora_rank=8, lora_roles=4)
        config.filters.of_role = section(advantages.only_roles, roles=(0,))
        config.optimizer.learning_rate = 3e-3
    if beside:
        # It would have the policy in the other modules' seats.
        config.evaluation.every = 0
    return config
