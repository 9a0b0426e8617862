r"""Household-v1 at ALFWorld's size by Qwen2.5-1.5B or 7B: GiGPO with verl-agent's settings.

Feng et al. (2025), Group-in-Group Policy Optimization, https://arxiv.org/abs/2505.10978. DIRECTORY
holds config.json, tokenizer.json and .safetensors; "rehearsal,DIRECTORY" takes a random model of
two layers instead of the weights.

    python -m launchers.train --config=configs/published/qwen_household_gigpo.py:DIRECTORY \
        --workdir=runs/qwen --config.mesh.fsdp=8

8 H100: 21,428 MiB per device (1.5B); 7B needs learner.microbatch=8. Not trained here. The paper
reports on ALFWorld 86.7 +- 1.7 % (1.5B) and 90.8 +- 1.3 % (7B) after 150 iterations.
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, env_section, section

VARIANTS = {
    "DIRECTORY": "of Qwen2.5-1.5B-Instruct or 7B",
    "rehearsal,DIRECTORY": "the same at a size that a small machine runs",
}


def get_config(variant: str = "") -> ml_collections.ConfigDict:
    preset, _, rest = variant.rpartition(",")
    if preset not in ("", "rehearsal"):
        raise ValueError(f"{variant!r}: expected DIRECTORY, or rehearsal,DIRECTORY")
    config = base_config()
    config.updates, config.log_every = 150, 1
    config.env = env_section(
        "Household-v1", receptacles=24, objects=32, max_steps_in_episode=50, expert_sees_all=False
    )
    config.policy = section(policies.pretrained, directory=rest, remat=True)
    config.rollout = section(rollout.episodes, num_groups=16, group_size=8)
    config.context = section(rollout.contexts.window, history=2, max_new_tokens=512)
    config.advantage = section(advantages.gigpo, gamma=0.95, step_weight=1.0, normalize="std")
    config.reward.invalid_action_penalty = {"coefficient": 0.01}
    config.objective.policy.dual_clip = 3.0
    config.learner.update(minibatches=25, microbatch=32)
    config.objective.entropy.weight = 0.001
    config.objective.kl.weight = 0.01
    config.optimizer.update(learning_rate=1e-6, max_grad_norm=1.0, weight_decay=0.01)
    config.evaluation.update(every=5, episodes=128)
    config.checkpoint.every = 25
    if preset:
        config.policy.rehearsal = True
        config.updates, config.evaluation.every, config.checkpoint.every = 1, 0, 0
        config.rollout.update(num_groups=2, group_size=2, max_turns=2)
        config.context.max_new_tokens = 16
        config.learner.update(minibatches=1, microbatch=4)
    return config
