"""ToolCalls-v1 from nothing, with a specification of the behaviour in temporal logic, or without.

Crouse et al. (2023), "Formally specifying the high-level behavior of LLM-based agents",
https://arxiv.org/abs/2310.08535: decoding writes only replies after which the specification can
still be kept. There the weights are fixed; here GRPO trains them, from the same random weights.

    python -m launchers.train --config=configs/words/behaviour.py:ordered --workdir=runs/ordered

Five seeds, a CPU core, a minute an arm. Return of 512 tasks: 0.00 free, 0.47 any command,
0.53 ordered, 0.77 exact (README.md).
"""

import ml_collections

from agentrl import rollout
from agentrl.config import check_variant, env_section, section
from configs._shared import language

VARIANTS = {
    "free": "any reply; violations are counted",
    "commands": "any command; violations are counted",
    "ordered": "any command after which the specification can be kept",
    "exact": "as ordered, with the number of calls, which the task does not tell",
}
# Calls, and then the answer, with which the episode ends.
ORDER = "(until (not answer) answer) (not answer) (always (implies answer last))"
EXACT = "(episode (next (not answer) (not answer) answer))"


def get_config(variant: str = "ordered") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = language.config_of(
        "grpo",
        env_section("ToolCalls-v1", tools=3, arguments=3, needed=2, limit=5),
        section(rollout.episodes, num_groups=8, group_size=8),
        section(rollout.contexts.window, history=0),
        warm_updates=0,
        updates=60,
    )
    config.num_seeds = 5
    config.policy.behaviour = EXACT if variant == "exact" else ORDER
    config.policy.enforce = variant in ("ordered", "exact")
    config.policy.constrained = variant != "free"
    config.optimizer.learning_rate = 1e-3
    config.evaluation.update(every=0, episodes=512)
    # Rows are single turns.
    config.learner.update(microbatch=80, lengths=1)
    return config
