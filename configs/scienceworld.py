"""ScienceWorld's tasks through worker processes: GiGPO by a transformer from scratch.

Wang et al. (2022), ScienceWorld, https://arxiv.org/abs/2203.07540. "find-non-living-thing", easy
simplifications; the policy replies with the letter of one of ten commands. ":DIRECTORY" is a
published model that writes commands in words, by LoRA (not trained yet).

    pip install scienceworld   # and a Java runtime
    python -m launchers.train --config=configs/scienceworld.py --workdir=runs/scienceworld

Two shared CPU cores, 17 s per update. Return (score / 100) from 0.03 to 0.39 (32 updates) and 0.46
(40), two seeds; one fixed letter gives up to 0.59. Details: configs/README.md.
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, env_section, section


def get_config(directory: str = "") -> ml_collections.ConfigDict:
    config = base_config()
    config.updates, config.log_every = 40, 1
    config.env = env_section(
        "scienceworld:find-non-living-thing",
        variations="train",
        simplifications="easy",
        verbs=("go to", "focus on", "pick up", "move") if directory else ("go to", "focus on"),
        limit=40 if directory else 10,
        commands="listed" if directory else "lettered",
    )
    config.rollout = section(rollout.episodes, num_groups=8, group_size=8, max_turns=3)
    config.advantage = section(advantages.gigpo, normalize="mean")
    config.reward.invalid_action_penalty = {"coefficient": 0.3}
    config.evaluation.update(every=0, episodes=128)
    if directory:
        config.policy = section(
            policies.pretrained, directory=directory, grammar="bare", lora_rank=16
        )
        config.context = section(rollout.contexts.window, history=0, max_new_tokens=24)
        config.host.update(workers=4, observation_tokens=1024)
        config.learner.update(microbatch=4)
        config.objective.kl.weight = 0.01
        config.optimizer.learning_rate = 1e-5
        return config
    config.policy = section(
        policies.transformer, codec="byte", width=64, layers=2, heads=4, kv_heads=4, hidden=192
    )
    config.context = section(rollout.contexts.window, history=0, max_new_tokens=1)
    config.host.update(workers=4, observation_tokens=384)
    config.learner.update(minibatches=4, microbatch=24, lengths=2)
    config.objective.entropy.weight = 0.003
    config.optimizer.learning_rate = 3e-3
    return config
