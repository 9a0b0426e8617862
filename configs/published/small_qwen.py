r"""Household-v1 by a small Qwen 2 with a tokenizer of its own: SFT, then GiGPO.

The path of published weights (`pretrained.py`), from scratch: Hugging Face's files, chat format,
subword tokens, export. All commands are in README.md.

    python -m launchers.new_model --envs=Household-v1 --out=models/small
    python -m launchers.train --config=configs/published/small_qwen.py:sft,models/small \
        --workdir=runs/begun

Two CPU cores, 3 to 6 s per update of GiGPO and seed. Expected success (two seeds): random play
0.006, 600 updates of SFT 0.393 and 0.373, 60 of GiGPO 0.427 and 0.455, expert 0.969.
"""

import ml_collections

from agentrl import policies, rollout
from agentrl.config import section
from configs.words import household

VARIANTS = {f"{method},DIRECTORY": "" for method in ("sft", "gigpo")}


def get_config(variant: str = "gigpo,") -> ml_collections.ConfigDict:
    method, comma, directory = variant.partition(",")
    if not comma or method not in ("sft", "gigpo"):
        raise ValueError(
            f"variant {variant!r}: expected METHOD,DIRECTORY, the method sft or gigpo and the "
            "directory of a model"
        )
    config = household.get_config(method)
    config.num_seeds = 2
    # Texts of half the default length.
    config.env.update(receptacles=5, objects=4, max_steps_in_episode=12)
    config.policy = section(
        policies.pretrained, directory=directory, grammar="bare", dtype="float32"
    )
    # The whole conversation is one row: the rules, 206 tokens, are read once instead of every
    # turn.
    config.rollout = section(rollout.episodes, num_groups=8, group_size=8)
    config.context = section(rollout.contexts.whole)
    config.learner.update(microbatch=4, lengths=4)
    return config
