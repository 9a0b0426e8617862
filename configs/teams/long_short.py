r"""Two policies take turns on one transcript: one thinks at length, one is brief (Long and Short).

After "Long and Short" (2025), code usail-hkust/LongShort 4101257. An adapter each on the parameters
of "sft". "alternate": they learn by turns, `PERIOD` updates each, the other one frozen; "joint":
both at once; "unbounded": as "joint", without the term of length.

    python -m launchers.train --config=configs/teams/long_short.py:sft --workdir=runs/steps_sft
    python -m launchers.train --config=configs/teams/long_short.py:alternate \
        --workdir=runs/steps_alternate --config.init_from=runs/steps_sft
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
        section(rollout.episodes, num_groups=16, group_size=8),
        section(rollout.contexts.whole),
        warm_updates=60 if first else 0,
        updates=100,
    )
    config.num_seeds = 2
    config.log_every = 10
    config.expert.noise = 0.5
    config.evaluation.update(every=60 if first else 20, episodes=512, at_start=not first)
    if first:
        return config
    config.policy.update(lora_rank=8, lora_roles=2)
    rate = {"learning_rate": 3e-3}
    config.optimizers = {"lora_0": rate, "lora_1": rate}
    if variant == "alternate":
        period = PERIOD * config.learner.minibatches
        config.optimizers.lora_0.update(schedule="even", period=period)
        config.optimizers.lora_1.update(schedule="odd", period=period)
    # Answer, own format and length, each with weight 1.
    config.reward.tool_use_reward = section(
        rewards.tool_use_reward, format_weight=0.0, tool_weight=1.0
    )
    if variant != "unbounded":
        config.reward.short_reply_bonus = section(rewards.short_reply_bonus, threshold=1.0)
    return config
