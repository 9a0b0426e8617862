r"""Two policies take turns on one transcript: one thinks at length, one is brief (Long and Short).

After "Long and Short" (2025), code usail-hkust/LongShort 4101257. An adapter each on the parameters
of "sft". "alternate": they learn by turns, `PERIOD` updates each, the other one frozen; "joint":
both at once; "unbounded": as "joint", without the term of length.

    python -m launchers.train --config=configs/teams/long_short.py:sft --workdir=runs/steps_sft
    python -m launchers.train --config=configs/teams/long_short.py:alternate \
        --workdir=runs/steps_alternate --config.init_from=runs/steps_sft

Five seeds, 7 busy minutes. Success: sft 0.77, joint 0.84, alternate 0.92, unbounded 0.93; tokens
32.4, 32.7, 33.7 (README.md).
"""

import ml_collections

from agentrl import rewards, rollout
from agentrl.config import check_variant, env_section, section
from configs._shared import language

VARIANTS = ("alternate", "joint", "unbounded", "sft")
PERIOD = 10


def get_config(variant: str = "alternate") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    first = variant == "sft"
    config = language.config_of(
        "sft" if first else "grpo",
        env_section("envs.wrappers.OneTranscript", base=env_section("StepChain-v1")),
        section(rollout.episodes, num_groups=8, group_size=8),
        section(rollout.contexts.whole),
        warm_updates=140 if first else 0,
        updates=60,
    )
    config.num_seeds = 5
    config.log_every = 10
    config.expert.noise = 0.5
    config.evaluation.update(every=140 if first else 30, episodes=512)
    if first:
        return config
    config.policy.update(lora_rank=8, lora_roles=2)
    period = PERIOD * config.learner.minibatches
    for role, turn in ("lora_0", "even"), ("lora_1", "odd"):
        config.optimizers[role] = {"learning_rate": 1e-3}
        if variant == "alternate":
            config.optimizers[role].update(schedule=turn, period=period)
    # Answer, own format and length, each with weight 1; right ones have more than 1 by the former.
    config.reward.format = section(rewards.tool_use_reward, format_weight=0.0, tool_weight=1.0)
    if variant != "unbounded":
        config.reward.length = section(rewards.short_reply_bonus, threshold=1.0)
    return config
