"""Coin with control of the entropy: EPO's corridor, STARE's reweighting, or a plain bonus.

EPO: https://arxiv.org/abs/2509.22576. STARE: code hp-luo/STARE bffb9e7. "bonus" is coin.py:grpo.

    python -m launchers.train --config=configs/words/entropy.py:epo --workdir=runs/epo

Three seeds, two busy CPU cores: 1 minute. Mean success over the run: EPO 0.45, bonus 0.45, STARE
0.37; at the end 0.97, 0.90, 0.82; 0.90, 0.93, 0.54; 0.69, 0.37, 0.73. Entropy at the end of 0.08 to
0.26, 0.12 to 0.30, and 0.69 to 0.77 nats, STARE's target being 0.8. "household..." in words, from
gigpo_parts.py:sft: EPO 0.17, STARE 0.12, bonus 0.17, none 0.11, SFT 0.50 (README.md).
"""

import ml_collections

from agentrl import advantages, losses
from agentrl.config import check_variant, section, term
from agentrl.methods.epo import entropy_history
from agentrl.methods.stare import stare_weights
from configs.credit import coin
from configs.words import gigpo_parts

VARIANTS = ("epo", "stare", "bonus")
VARIANTS += ("household", *(f"household_{method}" for method in VARIANTS))


def get_config(variant: str = "epo") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    if variant.startswith("household"):
        # Where the entropy of a policy in words collapses; from configs/words/gigpo_parts.py:sft.
        config = gigpo_parts.get_config("divided")
        config.optimizer.learning_rate = 1e-3
        config.learner.epochs = 2
        config.objective.entropy.weight = 0.0 if variant == "household" else 0.003
    else:
        config = coin.get_config("grpo")
        config.num_seeds = 3
        config.updates = 150
    variant = variant.removeprefix("household_")
    if variant == "epo":
        config.components.entropy_history = section(entropy_history)
        config.objective.epo = term(losses.epo, weight=config.objective.entropy.weight)
        config.objective.entropy.weight = 0.0
    if variant == "stare":
        target = 0.3 if config.env.name == "Household-v1" else 0.8
        config.components.stare_weights = section(stare_weights, target=target, loss=0.9, step=0.01)
        config.reweighting.stare = section(advantages.stare)
        config.objective.entropy.weight = 0.0
    return config
