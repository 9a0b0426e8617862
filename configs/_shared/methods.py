"""Presets of the methods that experiments compare: what each changes in a config."""

import ml_collections

from agentrl import advantages
from agentrl.config import check_variant, section

METHODS = ("gigpo", "grpo", "rloo", "ppo")


def use(config: ml_collections.ConfigDict, method: str, normalize: str = "std") -> None:
    """Sets what a method needs of the config. ValueError names the methods.

    normalize: of the group-relative methods that have it.
    """
    check_variant(method, METHODS)
    config.advantage = {
        "gigpo": lambda: section(advantages.gigpo, gamma=0.95, normalize=normalize),
        "grpo": lambda: section(advantages.grpo, normalize=normalize),
        "rloo": lambda: section(advantages.rloo),
        "ppo": lambda: section(advantages.gae, gamma=0.95, lam=0.95),
    }[method]()
    config.objective.value.weight = 0.5 if method == "ppo" else 0.0
