"""ScienceWorld's tasks through worker processes: GiGPO by a transformer from scratch.

Wang et al. (2022), ScienceWorld, https://arxiv.org/abs/2203.07540. "lifespan-longest-lived": go
outside, focus on the animal that lives longest. Easy simplifications; the policy replies with the
letter of one of ten commands, in an order of its own in every turn. ":DIRECTORY" is a published
model that writes commands in words, by LoRA (not trained yet).

    pip install scienceworld   # and a Java runtime
    python -m launchers.train --config=configs/scienceworld.py --workdir=runs/scienceworld

Random letters give a return (score / 100) of -0.01 on 30 tasks, always one letter -0.02 and -0.03,
a script that goes outside where that is listed 0.30, the solution 1. Not learnt yet: with
--config.rollout.num_groups=4 --config.learner.minibatches=2, 27 updates (15 minutes on two busy CPU
cores, one seed) bring replies that are no listed letter from 0.96 to 0.03, and the return stays
0.00. Details: configs/README.md.
"""

import ml_collections

from agentrl.config import env_section
from configs import hosted


def get_config(directory: str = "") -> ml_collections.ConfigDict:
    return hosted.config_of(
        directory,
        env=env_section(
            "scienceworld:lifespan-longest-lived",
            variations="train",
            simplifications="easy",
            verbs=("teleport to", "focus on"),
            limit=40 if directory else 10,
        ),
        group_size=8,
        max_turns=3,
        workers=4,
        observation_tokens=1024 if directory else 384,
        microbatch=24,
    )
