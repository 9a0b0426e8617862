r"""Household-v1 in words by a published model: LoRA on its weights, GiGPO.

Feng et al. (2025), Group-in-Group Policy Optimization, https://arxiv.org/abs/2505.10978. For any
model that `agentrl.policies.huggingface` reads; DIRECTORY holds config.json, tokenizer.json and
.safetensors, nothing is downloaded.

    python -m launchers.train --config=configs/published/pretrained.py:DIRECTORY \
        --workdir=runs/pretrained

Not trained yet: no hardware, time or result is stated. README.md has a rehearsal with a
random model of the family (--config.policy.rehearsal=True) for a small machine.
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, env_section, section

VARIANTS = {"DIRECTORY": "of a published model that agentrl.policies.huggingface reads"}


def get_config(variant: str = "") -> ml_collections.ConfigDict:
    config = base_config()
    config.updates, config.log_every = 150, 5
    config.env = env_section("Household-v1")
    config.policy = section(policies.pretrained, directory=variant, lora_rank=16)
    config.rollout = section(rollout.episodes, num_groups=16, group_size=8)
    config.context = section(rollout.contexts.window, history=2, max_new_tokens=256)
    config.advantage = section(advantages.gigpo, normalize="mean")
    config.reward.invalid_action_penalty = {"coefficient": 0.1}
    config.learner.update(microbatch=4)
    config.objective.kl.weight = 0.01
    config.optimizer.learning_rate = 1e-5
    config.evaluation.every = 25
    config.evaluation.episodes = 128
    return config
