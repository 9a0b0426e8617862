r"""Neeko: many characters in one model, by adapters whose blocks a gate of the role weights.

Yu et al. (2024), https://arxiv.org/abs/2402.13717. By SFT. "base": any character's answers. From
it, not told who is asked: "gated" (four blocks of rank 2), "shared" (rank 8), "separate" (one
each); "named": told. A seventh, a tenth as long: "fusion", "expansion" of gated, "fresh" of base.

    python -m launchers.train --config=configs/teams/neeko.py:base --workdir=runs/neeko_base
    python -m launchers.train --config=configs/teams/neeko.py:gated --workdir=runs/neeko \
        --config.init_from=runs/neeko_base

Three seeds, under two minutes each. Right answers of six: gated and separate 0.995, named 0.762,
shared 0.50; of the seventh: fresh 0.98, expansion 0.94, fusion 0.53.
"""

import ml_collections

from agentrl import rollout
from agentrl.config import check_variant, env_section, section
from agentrl.methods.gates import gates
from configs._shared import language
from envs.characters.env import NAMES

GATED = {"lora_rank": 8, "lora_blocks": 4}
ADAPTERS = {
    "base": {},
    "gated": GATED,
    "shared": {"lora_rank": 8},
    "separate": {"lora_rank": 8, "lora_roles": 6},
    "named": {"lora_rank": 8},
    "fusion": {**GATED, "lora_train": ("lora_gate",)},
    "expansion": {
        **GATED, "lora_added": 1, "lora_added_for": (6,), "lora_train": ("lora_added",)
    },
    "fresh": {"lora_rank": 8},
}  # fmt: skip
VARIANTS = tuple(ADAPTERS)
SEVENTH = ("fusion", "expansion", "fresh")
UPDATES = 300


def get_config(variant: str = "gated") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    later, based = variant in SEVENTH, variant == "base"
    names = NAMES[: 7 if later else 6]
    options = {"names": names, "named": variant == "named"}
    config = language.config_of(
        "sft",
        env_section("Characters-v1", **options, **({"asked": (6,)} if later else {})),
        section(rollout.episodes, num_groups=4, group_size=8),
        section(rollout.contexts.window, history=0),
        warm_updates=UPDATES // 10 if later else UPDATES,
        updates=0,
    )
    config.num_seeds, config.log_every = 3, 5
    config.expert.episodes = 32 if later else 8
    config.policy.update(ADAPTERS[variant])
    if "lora_blocks" in ADAPTERS[variant]:
        profiles = tuple(f"the {name}" for name in names)
        config.policy.update(lora_roles=len(names), lora_profiles=profiles)
        config.components.gates = section(gates)
    config.learner.update(minibatches=1, microbatch=None, lengths=1)
    config.warm_start.learning_rate = 3e-3 if based else 1e-2
    config.evaluation.update(every=config.updates, episodes=840)
    return config
