"""TextWorld's generated games through worker processes: GiGPO by a transformer from scratch.

Côté et al. (2018), TextWorld, https://arxiv.org/abs/1806.11532. One room, two things, one command
to win, 64 games; bytes are read, the letter of an admissible command is written. ":DIRECTORY" is a
published model that writes commands in words, by LoRA (not trained yet).

    pip install textworld
    python -m launchers.train --config=configs/textworld.py --workdir=runs/textworld

Two shared CPU cores, 16 s per update. Success from 0.01 to 0.42 (24 updates) and 0.45 (40), two
seeds; random letters win 0.27. Details: configs/README.md.
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, env_section, section


def get_config(directory: str = "") -> ml_collections.ConfigDict:
    config = base_config()
    config.updates, config.log_every = 40, 1
    config.env = env_section(
        "textworld:generated",
        rooms=1,
        objects=2,
        quest_length=1,
        games=64,
        commands="listed" if directory else "lettered",
    )
    config.rollout = section(rollout.episodes, num_groups=8, group_size=16, max_turns=2)
    config.advantage = section(advantages.gigpo, normalize="mean")
    config.reward.invalid_action_penalty = {"coefficient": 0.3}
    config.evaluation.update(every=0, episodes=128)
    if directory:
        config.policy = section(
            policies.pretrained, directory=directory, grammar="bare", lora_rank=16
        )
        config.context = section(rollout.contexts.window, history=0, max_new_tokens=24)
        config.host.update(workers=8, observation_tokens=320)
        config.learner.update(microbatch=4)
        config.objective.kl.weight = 0.01
        config.optimizer.learning_rate = 1e-5
        return config
    config.policy = section(
        policies.transformer, codec="byte", width=64, layers=2, heads=4, kv_heads=4, hidden=192
    )
    config.context = section(rollout.contexts.window, history=0, max_new_tokens=1)
    config.host.update(workers=8, observation_tokens=384)
    config.learner.update(minibatches=4, microbatch=32, lengths=2)
    config.objective.entropy.weight = 0.003
    config.optimizer.learning_rate = 3e-3
    return config
