"""A line of numbers in words: thoughts with and without a corrector.

After GTR (2025), https://arxiv.org/abs/2503.08525 (from notes). A reply is a thought, `3 below 17`,
and a move. "grpo": the outcome alone; "gtr": and wrong thoughts of all updates, corrected; "fresh":
of the last one; "whole": the corrector's moves are cloned, too; "annealed": to a thousandth.
"short": "grpo", where tokens behind the fifth cost up to 0.1 a reply (DAPO's overlong penalty).

    python -m launchers.train --config=configs/words/thoughts.py:sft --workdir=runs/thoughts_sft
    python -m launchers.train --config=configs/words/thoughts.py:gtr --workdir=runs/thoughts_gtr \
        --config.init_from=runs/thoughts_sft

Five seeds, ten minutes an arm: SFT 0.61, grpo 0.86, gtr 0.95, fresh 0.97, whole 0.99,
annealed 0.88; thoughts accepted 0.01 (grpo), 0.84 (gtr), 0.80, 0.64, 0.02 (README.md).
"""

import ml_collections

from agentrl import losses, rollout
from agentrl.config import check_variant, env_section, section, term
from agentrl.methods.thought_corrections import thought_corrections
from configs._shared import language

# Options of the component; the loss of its targets, which "grpo" only counts; that term's options.
ARMS = {
    "grpo": ({}, None, {}),
    "gtr": ({}, losses.thought_cloning, {}),
    "fresh": ({"rounds": 1}, losses.thought_cloning, {}),
    "whole": ({"actions": "teacher"}, losses.behaviour_cloning, {}),
    "annealed": ({}, losses.thought_cloning, {"final_weight": 1e-3}),
    "short": ({}, None, {}),
}
VARIANTS = ("sft", *ARMS)


def get_config(variant: str = "gtr") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    starts = variant == "sft"
    config = language.config_of(
        "sft" if starts else "grpo",
        # A reply that is no move costs what a wrong one does.
        env_section(
            "NumberLine-v1",
            length=20,
            wording="reasoned",
            max_steps_in_episode=20,
            illegal_reward=-1.0,
        ),
        section(rollout.episodes, num_groups=8, group_size=8),
        section(rollout.contexts.window, history=0),
        warm_updates=50 if starts else 0,
        updates=200,
    )
    config.num_seeds, config.log_every = 5, 10
    config.policy.grammar = "action"
    config.learner.update(microbatch=64, lengths=1)
    config.expert.thoughts = True
    config.evaluation.update(every=config.updates, episodes=512)
    if starts:
        return config
    options, loss, weights = ARMS[variant]
    config.components.thought_corrections = section(
        thought_corrections, hopeless=language.out_of_time, **options
    )
    config.objective.policy = term(losses.thought_scaled_surrogate, kappa=0.5)
    if variant == "short":
        config.reward.length_penalty = {"limit": 10, "buffer": 5, "coefficient": 0.1}
    if loss is not None:
        config.objective.thoughts = term(loss, source="thought_corrections", during="rl", **weights)
    return config
