"""Presets of the methods that experiments compare: what each changes in a config."""

import ml_collections

from agentrl import advantages
from agentrl.training.config import section

METHODS = ("gigpo", "grpo", "rloo", "ppo")


def advantage(file: str, method: str, normalize: str = "std") -> ml_collections.ConfigDict:
    """The advantage section of a method. ValueError names the file's methods.

    normalize: of the group-relative methods that have it.
    """
    if method not in METHODS:
        raise ValueError(f"configs/{file}:{method}: expected one of {', '.join(METHODS)}")
    return {
        "gigpo": lambda: section(advantages.gigpo, gamma=0.95, normalize=normalize),
        "grpo": lambda: section(advantages.grpo, normalize=normalize),
        "rloo": lambda: section(advantages.rloo),
        "ppo": lambda: section(advantages.gae, gamma=0.95, lam=0.95),
    }[method]()
