r"""GuidedResearch-v1 in words: a transformer plans for frozen executors, which need no plan.

"sft": imitation of a planner that names the right source (EAGLET's cold start, stopped early).
"gain": from there GRPO of both executors' gains (https://arxiv.org/abs/2510.05608); "outcome": of
the expert executor's success; both after the SFT that the preset itself begins with.

    python -m launchers.train --config=configs/teams/eaglet_words.py:gain --workdir=runs/eaglet

One seed, 100 s of processor time. Success of the expert executor 0.19 after SFT, 0.43 after gain
(0.33 without a plan), of the novice 0.15, 0.32 (0.24); after "outcome" 0.44, 0.33 (README.md).
"""

import ml_collections

from agentrl import advantages, rewards, rollout
from agentrl.config import check_variant, env_section, section
from agentrl.methods.counterfactual import counterfactual
from configs._shared import language

VARIANTS = ("gain", "outcome", "sft")


def get_config(variant: str = "gain") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = language.config_of(
        "sft" if variant == "sft" else "grpo",
        env_section("GuidedResearch-v1"),
        section(
            counterfactual,
            side="planner",
            partners=("expert", "expert:0.5"),
            replacements=("envs.guided_research.env.silent",),
            num_groups=16,
            group_size=16,
        ),
        section(rollout.contexts.window, history=0),
        # Demonstrations have both seats; it is stopped before the planner knows all topics.
        warm_updates=20,
        updates=40,
    )
    config.log_every = 5
    # It would have the policy in both seats.
    config.evaluation.every = 0
    config.advantage = section(advantages.grpo, normalize="mean")
    if variant == "gain":
        config.reward.gain = section(rewards.executor_gain)
    config.learner.update(microbatch=64, lengths=1)
    return config
