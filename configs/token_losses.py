"""Coin with losses that keep entropy: Clip-Cov, KL-Cov and AEPO in the place of PPO's clip.

Clip-Cov and KL-Cov: https://arxiv.org/abs/2505.22617. AEPO: https://arxiv.org/abs/2510.14545. The
rest is coin.py:grpo without its entropy bonus; "ppo" has the clipped surrogate.

    python -m launchers.train --config=configs/token_losses.py:aepo --workdir=runs/aepo

Five seeds, two busy CPU cores: 20 s. Mean success over the run: AEPO 0.56, PPO 0.50, Clip-Cov 0.49,
KL-Cov 0.02; at the end 0.97 to 0.99, 0.40 to 0.97, 0.83 to 0.98, 0.00 to 0.02. Entropy at the end
0.04, 0.14, 0.08, 0.14 nats: none keeps it here. KL-Cov clips no ratio, and loses it in 20 updates.
"""

import ml_collections

from agentrl import losses
from agentrl.config import term
from configs import coin

# Published shares. They are of the decisions of a minibatch, some hundreds here: one of them is
# taken. Clip-Cov with a share of 0.02 takes all that succeed by chance, and learns nothing.
TERMS = {
    "clip_cov": term(losses.clip_cov),
    "kl_cov": term(losses.kl_cov),
    "aepo": term(losses.aepo),
    "ppo": term(losses.clipped_surrogate),
}
METHODS = tuple(TERMS)


def get_config(method: str = "kl_cov") -> ml_collections.ConfigDict:
    if method not in METHODS:
        raise ValueError(f"configs/token_losses.py:{method}: expected one of {', '.join(METHODS)}")
    config = coin.get_config("grpo")
    config.num_seeds = 5
    config.updates = 150
    config.objective.policy = TERMS[method]
    config.objective.entropy.weight = 0.0
    return config
