r"""A solver and a verifier on one transcript: trees of their turns (MALT), or GRPO over episodes.

Motwani et al. (2024), MALT, https://arxiv.org/abs/2412.01928: a turn's value is the mean outcome
below it. "malt": supervised steps on turns of value 1/2 and more, and DPO between turns from the
same place; "positives", "dpo": one of the two. "tree_grpo", "grpo": GRPO; "sft": the start.

    python -m launchers.train --config=configs/teams/malt.py:sft --workdir=runs/malt_sft
    python -m launchers.train --config=configs/teams/malt.py:malt --workdir=runs/malt \
        --config.init_from=runs/malt_sft

Five seeds, two busy CPU cores: three to seven minutes. Success on 512 tasks
from 0.311: MALT 0.661, pairs alone 0.675, positives alone 0.594, GRPO 0.739 (README.md).
"""

import ml_collections

from agentrl import advantages, losses, rollout
from agentrl.config import check_variant, env_section, section, term
from agentrl.methods.siblings import own_turns, positives, siblings
from agentrl.methods.trees import trees
from configs._shared import language

VARIANTS = ("malt", "positives", "dpo", "tree_grpo", "grpo", "sft")


def get_config(variant: str = "malt") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    first, grows = variant == "sft", variant not in ("sft", "grpo")
    sizes = {"num_groups": 16, "group_size": 8}
    config = language.config_of(
        "sft" if first else "grpo",
        env_section(
            "envs.wrappers.OneTranscript",
            base=env_section("CheckedSum-v1", question="largest", terms=4, modulus=9),
        ),
        section(trees, **sizes, rule="breadth", width=2, together=2)
        if grows
        else section(rollout.episodes, **sizes),
        section(rollout.contexts.whole),
        warm_updates=30 if first else 0,
        updates=100,
    )
    config.num_seeds = 5
    config.log_every = 10
    config.expert.noise = 0.3
    config.evaluation.update(every=30 if first else 20, episodes=512, at_start=not first)
    if grows:
        config.components.own_turns = section(own_turns)
    if variant == "tree_grpo":
        config.reweighting.shared_prefix = section(advantages.shared_prefix)
    if variant in ("malt", "positives", "dpo"):
        config.objective.policy.weight = 0.0
    if variant in ("malt", "positives"):
        config.components.positives = section(positives)
        config.objective.imitation = term(losses.weighted_imitation)
    if variant in ("malt", "dpo"):
        config.components.siblings = section(siblings, pairs=6)
        config.objective.dpo = term(losses.behaviour_dpo, source="siblings")
    return config
