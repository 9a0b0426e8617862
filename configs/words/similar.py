"""Coin-v1 in words with a clock in every observation: GiGPO's anchors by equality or similarity.

verl-agent 796ed31 (read) groups texts that hardly ever repeat by similarity, 0.95 or, for search,
0.9. Here nothing repeats but for the minute: "equal" has next to no anchor groups, "similar_NN" a
threshold of 0.NN, "state" the anchors of the state itself, "grpo" none.

    python -m launchers.train --config=configs/words/similar.py --workdir=runs/similar

Five seeds, two busy CPU cores, 30 minutes in all. Success of 1,024 tasks: SFT 0.06, grpo 0.53,
equal 0.62, similar_95 0.62, similar_90 0.59, similar_80 0.68, similar_60 0.61, state 0.70.
"""

import ml_collections

from agentrl import rollout
from agentrl.config import env_section, section
from agentrl.methods.similar_anchors import similar_anchors
from configs._shared import language

STAGES = ("sft", "grpo", "equal", "similar_95", "similar_90", "similar_80", "similar_60", "state")


def get_config() -> ml_collections.ConfigDict:
    return ml_collections.ConfigDict({"stages": {name: _stage(name) for name in STAGES}})


def _stage(name: str) -> ml_collections.ConfigDict:
    updates = 80 if name == "sft" else 200
    anchor = "state" if name == "state" else "observation"
    config = language.config_of(
        name if name in ("sft", "grpo") else "gigpo",
        env_section("envs.wrappers.Clock", base=env_section("Coin-v1")),
        section(rollout.episodes, num_groups=8, group_size=8, anchor=anchor),
        section(rollout.contexts.whole),
        warm_updates=0,
        updates=updates,
    )
    config.num_seeds = 5
    config.updates = updates
    config.evaluation.update(every=updates, episodes=1024)
    if name == "sft":
        config.warm_start.updates = updates
    else:
        config.init_from = "stage:sft"
    if name.startswith("similar"):
        threshold = int(name.removeprefix("similar_")) / 100
        config.components.similar_anchors = section(
            similar_anchors, threshold=threshold, buckets=128
        )
    return config
