"""SearchQA in words, its four questions told once or again: drift from the goal, turn by turn.

After Drift no more? (2025), from notes; no code. The prompt is the last turn and the new one. The
metrics drift/turn_1 to drift/turn_8 are KL(policy || policy that is told the questions) per token.
"sft" is told again every third turn; "once", "every_3" and "every_2" then go on by GRPO.

    python -m launchers.train --config=configs/words/drift.py:sft --workdir=runs/drift_sft
    python -m launchers.train --config=configs/words/drift.py:once --workdir=runs/once \
        --config.init_from=runs/drift_sft

Five seeds, two busy CPU cores. Right answers of 512 tasks: sft 0.717, once 0.287, every_3 0.744,
every_2 0.519: searches without the questions are 2 nats from those with them (README.md).
"""

import ml_collections

from agentrl import rollout
from agentrl.config import check_variant, env_section, section
from agentrl.methods.drift import drift
from configs._shared import language
from configs._shared.language import QUESTIONS, questions

# Turns between two reminders; 0: none after the first turn.
REMINDERS = {"sft": 3, "once": 0, "every_3": 3, "every_2": 2}
VARIANTS = tuple(REMINDERS)


def get_config(variant: str = "every_3") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    learns = variant != "sft"
    config = language.config_of(
        "grpo" if learns else "sft",
        env_section("SearchQA-v1", show_questions=False, **QUESTIONS),
        section(rollout.episodes, num_groups=8, group_size=8),
        section(
            rollout.contexts.window,
            history=1,
            inject=questions,
            inject_every=REMINDERS[variant],
        ),
        warm_updates=0 if learns else 400,
        updates=40,
    )
    config.num_seeds = 5
    config.components.drift = section(drift, reminder=questions, turns=tuple(range(1, 9)))
    config.evaluation.update(every=config.updates, episodes=512)
    return config
