"""SearchQA in words, WebDancer's stages: cold start, imitation of accepted attempts, DAPO.

Wu et al. (2025), https://arxiv.org/abs/2505.22648 (recalled, no code read). Questions of one hop;
"rejection" learns from the policy's own right, legal, straight episodes of a question
only. "straight" goes from the cold start to DAPO at once, "scratch" has no cold start.

    python -m launchers.train --config=configs/words/web_dancer.py --workdir=runs/web_dancer

Five seeds, two CPU cores: 2 minutes in all. Success of 512 questions: cold 0.65, rejection 0.74, rl
0.77, straight 0.75, scratch 0.00 (README.md).
"""

import ml_collections

from agentrl import advantages, losses, rollout
from agentrl.config import env_section, section, term
from configs._shared import language

# Updates of a stage, and the stage that it starts from.
STAGES = {
    "cold": (140, None),
    "rejection": (40, "cold"),
    "rl": (60, "rejection"),
    "straight": (100, "cold"),
    "scratch": (100, None),
}


def get_config() -> ml_collections.ConfigDict:
    return ml_collections.ConfigDict({"stages": {name: _stage(name) for name in STAGES}})


def _stage(name: str) -> ml_collections.ConfigDict:
    updates, start = STAGES[name]
    # 0.1 for an answer, 0.9 for the right one, but for the scale.
    env = env_section(
        "SearchQA-v1", objectives=1, entities=20, relations=4, max_hops=1, format_reward=1 / 9
    )
    acting = section(rollout.episodes, num_groups=8, group_size=8)
    context = section(rollout.contexts.whole)
    method = "sft" if name == "cold" else "grpo"
    config = language.config_of(method, env, acting, context, warm_updates=0, updates=updates)
    config.num_seeds = 5
    config.updates = updates
    config.evaluation.update(every=updates, episodes=512)
    if start is not None:
        config.init_from = f"stage:{start}"
    if name == "cold":
        config.warm_start.updates = updates
    elif name == "rejection":
        config.filters.accepted = section(advantages.accepted, longest=4)
        config.objective.policy.weight = 0.0
        config.objective.imitation = term(losses.behaviour_cloning, source="rollout", during="rl")
    else:
        config.filters.dynamic_sampling = section(advantages.dynamic_sampling)
        config.objective.policy = term(losses.clipped_surrogate, clip_high=0.28)
    return config
