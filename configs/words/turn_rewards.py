"""Rewards of turns in words: MatchTIR, Video-MTR, G-RA, MAPO, SPA; SFT, then RL.

The worlds and rewards of tool_calls.py ("calls"; "several": two commands a reply), video.py,
submission.py ("chain") and support.py in configs/credit, and the rewards of progress.py where
success alone pays ("spa"). WORLD_sft: the expert imitated. MAPO: support_mixed.

    p=configs/words/turn_rewards.py
    python -m launchers.train --config=$p:calls_sft --workdir=runs/calls_sft
    python -m launchers.train --config=$p:calls_dual --workdir=runs/calls_dual \
        --config.init_from=runs/calls_sft

Five seeds, success: calls 0.58 by the outcome, dual 0.66; chain 0.805, gated 0.781, summed 0.198,
which does not submit; video 0.360, gated 0.277; spa 0.738 by the outcome, else 0 (README.md).
"""

import ml_collections

from agentrl import rollout
from agentrl.config import check_variant, env_section, section
from configs._shared import language
from configs.credit import progress, submission, support, tool_calls, video

# Of each world the experiment over arrays, its presets, and the updates of SFT.
WORLDS = {
    "calls": (tool_calls, ("outcome", "dual"), 100),
    "several": (tool_calls, ("outcome", "dual"), 100),
    "video": (video, ("outcome", "gated", "ungated"), 300),
    "chain": (submission, ("outcome", "gated", "summed"), 20),
    "support": (support, ("outcome", "mixed", "turn"), 60),
    "spa": (progress, ("outcome", "spa", "fitted", "kept", "published", "grounded"), 40),
}
# As "fitted" and "kept", with SPA's reward for replies that are commands.
GROUNDED = {"published": "fitted", "grounded": "kept"}
VARIANTS = tuple(f"{name}_{arm}" for name, (_, arms, _) in WORLDS.items() for arm in ("sft", *arms))


def get_config(variant: str = "calls_dual") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    world, _, arm = variant.partition("_")
    module, arms, warm = WORLDS[world]
    first = arm == "sft"
    arrays = module.get_config(arms[0] if first else GROUNDED.get(arm, arm))
    env = arrays.env
    if world == "spa":
        # A coin's way is too long for what SFT teaches in words: 0.005 come to its end.
        env = env_section("ToolCalls-v1", tools=3, arguments=3, needed=2, limit=5, partial=0.0)
    config = language.config_of(
        "grpo" if arrays.policy.critic == "none" else "ppo",
        env,
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
        if world == "spa":
            # Else episodes at the limit are worth what the critic hopes for, and all come to it.
            config.advantage.at_limit = "end"
        if arm in GROUNDED:
            config.reward.progress.beta = 0.5
        config.optimizer.learning_rate = 1e-3
    return config
