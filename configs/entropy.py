"""Coin with control of the entropy: EPO's corridor, STARE's reweighting, or a plain bonus."""

import ml_collections

from agentrl import advantages, losses
from agentrl.config import section, term
from agentrl.methods.epo import entropy_history
from agentrl.methods.stare import stare_weights
from configs import coin

METHODS = ("epo", "stare", "bonus")


def get_config(method: str = "epo") -> ml_collections.ConfigDict:
    if method not in METHODS:
        raise ValueError(f"configs/entropy.py:{method}: expected one of {', '.join(METHODS)}")
    config = coin.get_config("grpo")
    config.num_seeds = 3
    config.updates = 150
    if method == "epo":
        config.components.entropy_history = section(entropy_history)
        config.objective.epo = term(losses.epo, weight=config.objective.entropy.weight)
        config.objective.entropy.weight = 0.0
    if method == "stare":
        config.components.stare_weights = section(stare_weights, target=0.8, loss=0.9, step=0.01)
        config.reweighting.stare = section(advantages.stare)
        config.objective.entropy.weight = 0.0
    return config
