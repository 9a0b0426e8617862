r"""Telecom-v1 in words: a support desk that asks a customer, who does most of what is asked.

Barres et al. (2025), tau2-bench, https://arxiv.org/abs/2506.07982; reliability is its pass^k, the
chance that k calls with the same problem all end well. "hard": a customer who often does not.

    python -m launchers.train --config=configs/words/telecom.py:sft --workdir=runs/telecom_sft
    python -m launchers.train --config=configs/words/telecom.py:grpo --workdir=runs/telecom_grpo \
        --config.init_from=runs/telecom_sft

Five seeds, a busy CPU core: half an hour an arm. pass^1 and pass^4 of 256 problems: sft 0.55,
0.28, grpo 0.73, 0.47, gigpo 0.75, 0.50; with a hard customer 0.41, 0.56, 0.58, hard 0.58
(README.md).
"""

import ml_collections

from agentrl import rollout
from agentrl.config import check_variant, env_section, section
from configs._shared import language
from envs.telecom.env import PERSONAS

# The method, and whether the customer is "hard".
VARIANTS = {
    "sft": ("sft", "easy"),
    "grpo": ("grpo", "easy"),
    "gigpo": ("gigpo", "easy"),
    "hard": ("grpo", "hard"),
}


def get_config(variant: str = "grpo") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    method, persona = VARIANTS[variant]
    first = variant == "sft"
    config = language.config_of(
        method,
        env_section("Telecom-v1", user="scripted", **PERSONAS[persona]),
        section(rollout.episodes, num_groups=16, group_size=8),
        # What the desk knows stands in what it reads, so a turn is a row.
        section(rollout.contexts.window, history=0),
        warm_updates=240 if first else 0,
        updates=80,
    )
    config.num_seeds = 5
    config.reward = {}
    config.evaluation.update(every=config.updates, episodes=512)
    config.learner.update(microbatch=64, lengths=1)
    return config
