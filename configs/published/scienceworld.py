"""ScienceWorld's "lifespan-longest-lived" through worker processes: GiGPO from scratch.

Wang et al. (2022), ScienceWorld, https://arxiv.org/abs/2203.07540. Easy simplifications; replies
are the letter of one of ten commands, shuffled in every turn. ":DIRECTORY" is a published model
that writes commands in words, by LoRA (not trained yet).

    pip install scienceworld   # and a Java runtime
    python -m launchers.train --config=configs/published/scienceworld.py --workdir=runs/scienceworld

Return of random letters -0.01, of one that goes outside where it is listed 0.30, of the solution 1.
27 updates of 32 episodes (15 minutes on two busy CPU cores) teach the letters, unlisted ones 0.96
to 0.03, but not to read: the return stays 0.00. Command and details: README.md.
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
        env=env_section(
            "scienceworld:lifespan-longest-lived",
            variations="train",
            simplifications="easy",
            verbs=("teleport to", "focus on"),
            limit=40 if variant else 10,
        ),
        group_size=8,
        max_turns=3,
        workers=4,
        observation_tokens=1024 if variant else 384,
        microbatch=24,
    )
