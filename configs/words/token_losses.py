"""Tool calls in words with other losses of tokens than PPO's clip: CISPO, GSPO.

https://arxiv.org/abs/2506.13585, https://arxiv.org/abs/2507.18071; losses as in verl b178a3c (read
and executed). GRPO's advantages, two passes of eight minibatches over 128 episodes, so that ratios
leave 1; "turn": GSPO with a ratio per turn.

    python -m launchers.train --config=configs/words/token_losses.py:cispo \
        --workdir=runs/calls_cispo --config.init_from=runs/pairs_sft  # configs/words/agent_q.py:sft

Five seeds, 2 minutes each on quiet cores. Success of 512 tasks: SFT 0.26, clip 0.952, GSPO 0.967,
with a ratio per turn 0.959, both slower at first; CISPO 0.744, from 0.10 to 1.00 (README.md).
"""

import ml_collections

from agentrl import losses
from agentrl.config import check_variant, term
from configs.words import agent_q

TERMS = {
    "clip": term(losses.clipped_surrogate),
    "cispo": term(losses.cispo),
    "gspo": term(losses.gspo),
    "turn": term(losses.gspo, ratio_of="turn"),
}
VARIANTS = tuple(TERMS)


def get_config(variant: str = "cispo") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = agent_q.get_config("grpo")
    config.objective.policy = TERMS[variant]
    config.learner.update(epochs=2, minibatches=8)
    if variant in ("gspo", "turn"):
        config.learner.aggregation = "row_mean"
    return config
