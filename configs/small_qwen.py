"""Household-v1 by a small Qwen 2 with a tokenizer of its own: SFT, then GiGPO or GRPO.

What is done with published weights (`configs/pretrained.py`), from scratch and small enough for two
CPU cores: files of Hugging Face's forms, chat format, subword tokens, and the way back.

    python -m launchers.new_model --envs=Household-v1 --out=models/small
    TEACH="--config=configs/small_qwen.py:sft,models/small --config.updates=300
        --config.warm_start.updates=300"
    python -m launchers.train $TEACH --workdir=runs/begun
    python -m launchers.train $TEACH --workdir=runs/taught --config.init_from=runs/begun
    python -m launchers.train --config=configs/small_qwen.py:gigpo,models/small \\
        --workdir=runs/gigpo --config.init_from=runs/taught --config.warm_start.updates=0 \\
        --config.updates=60
    python -m launchers.evaluate --workdir=runs/gigpo
    python -m launchers.export --workdir=runs/gigpo --out=models/trained

In a room of five places and four things, 12 turns; two seeds, 121,024 parameters; success on 1,024
tasks: random play 0.006, taught 0.393 and 0.373 (0.03 and 0.08 of 256 tasks after the first half),
after 60 updates of GiGPO 0.427 and 0.455 (each +- 0.030), expert 0.969. An update of GiGPO took 3
to 6 s a seed on a busy machine.
"""

import ml_collections

from agentrl import policies, rollout
from agentrl.training.config import section
from configs import household


def get_config(method: str = "gigpo,") -> ml_collections.ConfigDict:
    method, comma, directory = method.partition(",")
    if not comma or method not in ("sft", "gigpo", "grpo", "rloo"):
        raise ValueError(
            f"configs/small_qwen.py:{method}{comma}{directory}: expected METHOD,DIRECTORY, a "
            "method of sft, gigpo, grpo, rloo and the directory of a model"
        )
    config = household.get_config(method)
    config.num_seeds = 2
    # Texts of half the length that the default has.
    config.env.update(receptacles=5, objects=4, max_steps_in_episode=12)
    config.policy = section(
        policies.pretrained, directory=directory, grammar="bare", dtype="float32"
    )
    # The whole conversation is one row: the rules, 206 tokens, are read once and not in every turn.
    config.rollout = section(rollout.episodes, num_groups=8, group_size=8)
    config.context = section(rollout.contexts.whole)
    config.learner.update(microbatch=4, lengths=4)
    return config
