"""Coin-v1 in words with a short context: summaries that the policy writes (SUPO), or less.

Lu et al. (2025), https://arxiv.org/abs/2510.06727. Of 40 tokens, some six turns: "summary" replaces
them by a summary, "window" shows the last four, "deepminer" all replies and three observations,
"mem1" the question and the last reply, "cut" ends the episode; "whole" shows everything.

    python -m launchers.train --config=configs/words/supo.py:sft --workdir=runs/supo_sft
    python -m launchers.train --config=configs/words/supo.py:summary --workdir=runs/supo_summary \
        --config.init_from=runs/supo_sft

Five seeds, two busy CPU cores, 5 minutes. Mean success: SFT 0.08, window 0.41, whole 0.36, summary
0.33, deepminer 0.31, mem1 0.25 (one seed 0.00), cut 0.19. More in README.md.
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.actors.contexts import SUMMARY_REQUEST
from agentrl.config import base_config, check_variant, env_section, section

VARIANTS = ("summary", "masked", "window", "deepminer", "mem1", "cut", "whole", "sft")
LIMIT = 40


def context(method: str) -> ml_collections.ConfigDict:
    """The context section of a method."""
    if method in ("summary", "masked"):
        size = {"limit": LIMIT, "summary_tokens": 4, "max_summaries": 3}
        return section(rollout.contexts.summary, **size)
    if method == "window":
        return section(rollout.contexts.window, history=4)
    if method == "deepminer":
        # All replies, and the last two observations besides the new one.
        return section(rollout.contexts.sliding, history=2)
    if method == "mem1":
        # The question, the last reply, and what came of it.
        return section(rollout.contexts.window, history=0, replies=1, keep_first=True)
    return section(rollout.contexts.whole, context_tokens=LIMIT if method == "cut" else None)


def get_config(variant: str = "summary") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = base_config()
    config.num_seeds = 5
    config.env = env_section("Coin-v1", show_last_move=False)
    config.policy = section(
        policies.transformer, width=64, layers=2, heads=2, kv_heads=2, hidden=128,
        words=(SUMMARY_REQUEST,),
    )  # fmt: skip
    config.rollout = section(rollout.episodes, num_groups=8, group_size=8)
    config.context = context(variant)
    signed = variant == "deepminer"
    config.advantage = section(advantages.pairwise_sign if signed else advantages.grpo)
    if variant == "masked":
        # Cut episodes count in the statistics and are not trained.
        config.filters.overlong = section(advantages.not_truncated)
    config.updates, config.log_every = 120, 20
    config.warm_start.update(updates=120 if variant == "sft" else 0, learning_rate=3e-3)
    config.expert.update(episodes=32)
    config.learner.update(minibatches=4, microbatch=16, lengths=2, normalize_advantage="batch")
    config.optimizer.learning_rate = 3e-4
    config.evaluation.every = 20
    return config
