"""What the configs of published engines share: both policies that play there, and GiGPO."""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, section


def config_of(
    directory: str,
    *,
    env: ml_collections.ConfigDict,
    group_size: int,
    max_turns: int,
    workers: int,
    observation_tokens: int,
    microbatch: int,
) -> ml_collections.ConfigDict:
    """GiGPO in an environment in Python, whose `commands` say how the policy replies.

    directory: a published model, which writes commands in words and is trained by LoRA; "" for a
      transformer from scratch, which reads bytes and writes the letter of a listed command.
    observation_tokens: of the observation's end, as the policy reads it. microbatch: rows per
      forward pass of the transformer from scratch.
    """
    config = base_config()
    config.updates, config.log_every = 40, 1
    config.env = env
    config.env.commands = "listed" if directory else "lettered"
    config.rollout = section(
        rollout.episodes, num_groups=8, group_size=group_size, max_turns=max_turns
    )
    config.advantage = section(advantages.gigpo, normalize="mean")
    config.reward.invalid_action_penalty = {"coefficient": 0.3}
    config.evaluation.update(every=0, episodes=128)
    config.host.update(workers=workers, observation_tokens=observation_tokens)
    config.context = section(
        rollout.contexts.window, history=0, max_new_tokens=24 if directory else 1
    )
    if directory:
        config.policy = section(
            policies.pretrained, directory=directory, grammar="bare", lora_rank=16
        )
        config.learner.microbatch = 4
        config.objective.kl.weight = 0.01
        config.optimizer.learning_rate = 1e-5
        return config
    config.policy = section(
        policies.transformer, codec="byte", width=64, layers=2, heads=4, kv_heads=4, hidden=192
    )
    config.learner.update(minibatches=4, microbatch=microbatch, lengths=2)
    config.objective.entropy.weight = 0.003
    config.optimizer.learning_rate = 3e-3
    return config
