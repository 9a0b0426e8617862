"""RAGEN's StarPO and StarPO-S on FrozenLake-v1 in words, by a transformer from scratch.

Wang et al. (2025), RAGEN, https://arxiv.org/abs/2504.20073. "starpo": GRPO on whole conversations
with a pull to the reference and a symmetric clip. "starpo_s": only the quarter of groups whose
returns spread most, a critic, no pull, and a clip that is wider upwards. Both, as there, take 8
groups of 16 episodes in 4 minibatches; what there is a language model is here warmed up on a few
expert's episodes. Their sign of an echo trap: `group_return_std` falls, `grad_norm` jumps.

    python -m launchers.train --config=configs/ragen.py:starpo_s --workdir=runs/starpo_s
"""

import ml_collections

from agentrl import advantages, losses, rollout
from agentrl.training.config import env_section, section
from agentrl.training.experiment import base_config
from configs import language

METHODS = ("starpo", "starpo_s")


def get_config(method: str = "starpo_s") -> ml_collections.ConfigDict:
    if method not in METHODS:
        raise ValueError(f"configs/ragen.py:{method}: expected one of {', '.join(METHODS)}")
    stabilised = method == "starpo_s"
    config = base_config()
    config.updates = 440
    config.log_every = 10
    config.env = env_section("FrozenLake-v1")
    config.policy = language.policy(critic="shared" if stabilised else "none")
    config.rollout = section(rollout.conversation, num_groups=8, group_size=16)
    config.reward.format_penalty = {"coefficient": 0.1}
    config.warm_start.update(updates=40, episodes=32, learning_rate=3e-3)
    config.learner.minibatches = 4
    config.learner.entropy_coefficient = 0.001
    config.optimizer.learning_rate = 3e-4
    if stabilised:
        config.advantage = section(advantages.gae, gamma=1.0, lam=1.0)
        config.filter = section(advantages.top_variance, fraction=0.25)
        config.loss = section(losses.clipped_surrogate, clip_high=0.28)
        config.learner.normalize_advantage = "batch"
        # The value head shares the decoder, and starts from nothing after the warm start.
        config.learner.value_coefficient = 0.1
    else:
        config.advantage = section(advantages.grpo)
        config.learner.kl_coefficient = 0.001
    config.evaluation.every = 40
    return config
