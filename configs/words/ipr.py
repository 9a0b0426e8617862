"""A locked room in words: preferences against the expert, step by step (IPR) or by outcome (ETO).

Xiong et al. (2024), https://arxiv.org/abs/2406.11176. From one SFT, at equal sampled turns: "ipr"
has pairs from the start and from later turns, "outcome" from the start alone, four times as many;
"as_many": from the start alone, as many pairs as "ipr".

    python -m launchers.train --config=configs/words/ipr.py:sft --workdir=runs/room_sft
    python -m launchers.train --config=configs/words/ipr.py:ipr --workdir=runs/room_ipr \
        --config.init_from=runs/room_sft

Five seeds, success of 512 tasks: SFT 0.118, ipr 0.128, outcome 0.180, as_many 0.161 (README).
"""

import ml_collections

from agentrl import losses, rollout
from agentrl.config import check_variant, env_section, section, term
from agentrl.methods.ipr import ipr
from configs._shared import language

ARMS = {
    "ipr": {"episodes": 16, "every": 3},
    "outcome": {"episodes": 32, "steps": 0},
    "as_many": {"episodes": 22, "steps": 0, "every": 3},
}
VARIANTS = (*ARMS, "sft")


def get_config(variant: str = "ipr") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    learns = variant != "sft"
    config = language.config_of(
        "grpo" if learns else "sft",
        env_section("KeyDoor-v1", rooms=1, max_steps_in_episode=12),
        section(rollout.episodes, num_groups=16, group_size=4),
        section(rollout.contexts.whole),
        warm_updates=0 if learns else 60,
        updates=45,
    )
    config.num_seeds = 5
    config.log_every = 10
    config.evaluation.update(every=10, episodes=256)
    if not learns:
        return config
    config.log_every = 15
    config.evaluation.update(every=15, episodes=512)
    config.objective.policy.weight = 0.0
    config.reward = ml_collections.ConfigDict()
    config.components.ipr = section(ipr, **ARMS[variant])
    config.objective.preference = term(losses.rpo, source="ipr", per_token=False, during="rl")
    config.learner.update(minibatches=2, normalize_advantage="none")
    return config
