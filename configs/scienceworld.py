"""ScienceWorld's tasks through worker processes: GiGPO by a transformer from scratch.

Wang et al. (2022), ScienceWorld, https://arxiv.org/abs/2203.07540. "find-non-living-thing", easy
simplifications; the policy replies with the letter of one of ten commands. ":DIRECTORY" is a
published model that writes commands in words, by LoRA (not trained yet).

    pip install scienceworld   # and a Java runtime
    python -m launchers.train --config=configs/scienceworld.py --workdir=runs/scienceworld

Two shared CPU cores, 17 s per update. Return (score / 100) from 0.03 to 0.39 (32 updates) and 0.46
(40), two seeds; one fixed letter gives up to 0.59. Details: configs/README.md.
"""

import ml_collections

from agentrl.config import env_section
from configs import hosted


def get_config(directory: str = "") -> ml_collections.ConfigDict:
    return hosted.config_of(
        directory,
        env=env_section(
            "scienceworld:find-non-living-thing",
            variations="train",
            simplifications="easy",
            verbs=("go to", "focus on", "pick up", "move") if directory else ("go to", "focus on"),
            limit=40 if directory else 10,
        ),
        group_size=8,
        max_turns=3,
        workers=4,
        observation_tokens=1024 if directory else 384,
        microbatch=24,
    )
