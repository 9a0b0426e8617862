"""TextWorld's generated games through worker processes: GiGPO by a transformer from scratch.

Côté et al. (2018), TextWorld, https://arxiv.org/abs/1806.11532. One room, two things, one command
to win, 64 games; bytes are read, the letter of an admissible command is written. ":DIRECTORY" is a
published model that writes commands in words, by LoRA (not trained yet).

    pip install textworld
    python -m launchers.train --config=configs/published/textworld.py --workdir=runs/textworld

Two shared CPU cores, 16 s per update. Success from 0.01 to 0.42 (24 updates) and 0.45 (40), two
seeds; random letters win 0.27. This was with letters in the commands' alphabetical order; they are
now in an order of their own in every turn, which has not been trained. Details: README.md.
"""

import ml_collections

from agentrl.config import env_section
from configs._shared import hosted

VARIANTS = {
    "": "a transformer from scratch, which writes the letter of a listed command",
    "DIRECTORY": "of a published model, which writes commands in words",
}


def get_config(variant: str = "") -> ml_collections.ConfigDict:
    return hosted.config_of(
        variant,
        env=env_section("textworld:generated", rooms=1, objects=2, quest_length=1, games=64),
        group_size=16,
        max_turns=2,
        workers=8,
        observation_tokens=320 if variant else 384,
        microbatch=32,
    )
