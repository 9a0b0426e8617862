"""Household-v1 at ALFWorld's size in words by Qwen2.5-1.5B or 7B: GiGPO with verl-agent's settings.

Feng et al. (2025), Group-in-Group Policy Optimization, https://arxiv.org/abs/2505.10978. Settings
are those of the authors' script for ALFWorld (verl-agent, examples/gigpo_trainer): 16 groups of 8,
50 turns, two turns of history, replies of 512 tokens, 150 iterations, minibatches of 256 rows,
AdamW at 1e-6, KL 0.01. Their success pays 10 and ours 1, so the cost of an invalid action is a
tenth of their 0.1. Different besides: our household in place of ALFWorld, rows of as many tokens as
the longest needs where theirs cuts prompts at 2048, evaluation at temperature 1 instead of 0.4.

    python -m launchers.train --config=configs/qwen_household_gigpo.py:DIRECTORY \
        --workdir=runs/qwen --config.mesh.fsdp=8

DIRECTORY holds config.json, tokenizer.json and .safetensors. Try everything first on any machine, a
random model of two layers in place of the weights, which are not read:

    python -m launchers.train --config=configs/qwen_household_gigpo.py:rehearsal,DIRECTORY \
        --workdir=runs/rehearsal

Memory of each device in MiB, the training state and all that an update needs besides, as XLA's
compiler for an H100 of 81,008 MiB lays it out; nothing was run. DIRECTORY held the model's
config.json and a byte-level tokenizer of 600 tokens, with which a row has 3,042 tokens:

    python -m launchers.compile --config=configs/qwen_household_gigpo.py:DIRECTORY \
        --target=h100:8 --config.mesh.fsdp=8

    1.5B on 8, as it is                           21,428
    1.5B on 8, policy.attention=cudnn             26,966
    1.5B on 2, as it is                           54,837
    7B on 8, as it is                            101,802   too much
    7B on 8, learner.microbatch=8                 56,044
    7B on 8, policy.attention=cudnn               68,595

Of it the state (parameters, reference, Adam's moments) is 2,946 a device for 1.5B on 8 and 14,530
for 7B. The compiler trades memory for speed as long as it has some, so these are no lower bounds.
Time, worked out: at most 6400 rows of 2560 tokens, 8 operations a parameter and token (a step and
the reference), are 2e17 for 1.5B: one minute on 8 devices of 400e12 a second; writing is at most
50 x 512 steps of no less than the time in which a device reads its copy of the weights (1 ms).

Expected, from the paper, on ALFWorld: success 86.7 +- 1.7 % (1.5B), 90.8 +- 1.3 % (7B) after 150
iterations. Not trained here.
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.training.base_config import base_config
from agentrl.training.config import env_section, section


def get_config(directory: str = "") -> ml_collections.ConfigDict:
    preset, _, rest = directory.rpartition(",")
    if preset not in ("", "rehearsal"):
        raise ValueError(f"{directory!r}: expected DIRECTORY, or rehearsal,DIRECTORY")
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
    config.loss.dual_clip = 3.0
    config.learner.update(
        minibatches=25, microbatch=32, kl_coefficient=0.01, entropy_coefficient=0.001
    )
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
