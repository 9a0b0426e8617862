"""Household-v1 in words by a published model: LoRA on its weights, GiGPO.

Feng et al. (2025), Group-in-Group Policy Optimization, https://arxiv.org/abs/2505.10978, trained
Qwen2.5-1.5B-Instruct and 7B on ALFWorld. Here is their kind of reply (thoughts, then a command in
tags) in our smaller household, for any model that `agentrl.policies.huggingface` reads. DIRECTORY
holds config.json, tokenizer.json and .safetensors; nothing is fetched.

    python -m launchers.train --config=configs/pretrained.py:DIRECTORY --workdir=runs/pretrained

Not trained yet, so no hardware, time or result is stated. To see whether everything fits together
on a small machine, with a random model of the family in place of the weights, add

    --config.policy.rehearsal=True --config.updates=1 --config.log_every=1
    --config.evaluation.every=0 --config.rollout.num_groups=2 --config.rollout.group_size=2
    --config.rollout.max_turns=2 --config.context.max_new_tokens=16
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.training.base_config import base_config
from agentrl.training.config import env_section, section


def get_config(directory: str = "") -> ml_collections.ConfigDict:
    config = base_config()
    config.updates, config.log_every = 150, 5
    config.env = env_section("Household-v1")
    config.policy = section(policies.pretrained, directory=directory, lora_rank=16)
    config.rollout = section(rollout.episodes, num_groups=16, group_size=8)
    config.context = section(rollout.contexts.window, history=2, max_new_tokens=256)
    config.advantage = section(advantages.gigpo, normalize="mean")
    config.reward.invalid_action_penalty = {"coefficient": 0.1}
    config.learner.update(microbatch=4, kl_coefficient=0.01)
    config.optimizer.learning_rate = 1e-5
    config.evaluation.every = 25
    config.evaluation.episodes = 128
    return config
