"""Rewards of turns in words: MatchTIR, Video-MTR, G-RA, MAPO; SFT, then RL.

The worlds and rewards of tool_calls.py ("calls"; "several": two commands a reply), video.py,
submission.py ("chain") and support.py in configs/credit. WORLD_sft: the expert imitated. MAPO:
support_mixed, its GRPO: support_outcome.

    p=configs/words/turn_rewards.py
    python -m launchers.train --config=$p:calls_sft --workdir=runs/calls_sft
    python -m launchers.train --config=$p:calls_dual --workdir=runs/calls_dual \
        --config.init_from=runs/calls_sft

Five seeds, success: calls 0.58 by the outcome, dual 0.66; chain 0.805, gated 0.781, summed 0.198,
which does not submit; video 0.360, gated 0.277, ungated 0.291 (README.md).
"""

import ml_collections

from agentrl import rollout
from agentrl.config import check_variant, section
from configs._shared import language
from configs.credit import submission, support, tool_calls, video

# Of each world the experiment over arrays, its presets, and the updates of SFT.
WORLDS = {
    "calls": (tool_calls, ("outcome", "dual"), 100),
    "several": (tool_calls, ("outcome", "dual"), 100),
    "video": (video, ("outcome", "gated", "ungated"), 300),
    "chain": (submission, ("outcome", "gated", "summed"), 20),
    "support": (support, ("outcome", "mixed", "turn"), 60),
}
VARIANTS = tuple(f"{name}_{arm}" for name, (_, arms, _) in WORLDS.items() for arm in ("sft", *arms))


def get_config(variant: str = "calls_dual") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    world, _, arm = variant.partition("_")
    module, arms, warm = WORLDS[world]
    first = arm == "sft"
    arrays = module.get_config(arms[0] if first else arm)
    config = language.config_of(
        "grpo" if arrays.policy.critic == "none" else "ppo",
        arrays.env,
        section(rollout.episodes, num_groups=16, group_size=8),
        section(rollout.contexts.whole),
        warm_updates=warm if first else 0,
        updates=0 if first else 120,
    )
    config.num_seeds = 5
    if world == "several":
        config.policy.update(grammar="answer", think="none", max_actions=2)
    config.evaluation.update(every=config.updates, episodes=512)
    config.learner.update(microbatch=32, lengths=1)
    if not first:
        config.advantage, config.components = arrays.advantage, arrays.components
        config.reward = arrays.reward
        config.optimizer.learning_rate = 1e-3
    return config
