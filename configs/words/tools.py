"""Tools: a price that has to be asked for, a calculator, an answer.

A small transformer that reads and writes bytes; supervised on the trajectories of a program
(agentrl.trajectories.file), then GRPO by the reward of the answer. `configs/_shared/price_desk.py`
is the environment: "7 fig?", `price fig`, "4", `calc 7*4`, "28", `28`.

    python -m launchers.demonstrate --env=configs._shared.price_desk:make \
        --solve=configs._shared.price_desk:solve --episodes=512 --out=runs/desk_adp.jsonl
    python -m launchers.trajectories --from_adp=runs/desk_adp.jsonl --to=runs/desk.jsonl \
        --config=configs/words/tools.py:sft
    python -m launchers.train --config=configs/words/tools.py:grpo --workdir=runs/tools
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section
from agentrl.trajectories import file

VARIANTS = ("grpo", "sft")


def get_config(variant: str = "grpo") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = base_config()
    config.env = env_section("configs._shared.price_desk:make")
    config.rollout = section(rollout.episodes, num_groups=16, group_size=8, max_turns=4)
    config.context = section(rollout.contexts.whole, max_new_tokens=12)
    config.host.update(workers=8, observation_tokens=12)
    config.policy = section(
        policies.transformer,
        codec="byte",
        width=64,
        layers=2,
        heads=4,
        kv_heads=4,
        hidden=192,
    )
    config.advantage = section(advantages.grpo)
    config.components.file = section(file, path="runs/desk.jsonl", rows=64)
    config.objective.imitation.source = "file"
    config.warm_start.update(updates=300, learning_rate=3e-3)
    config.optimizer.learning_rate = 1e-3
    config.updates = 340 if variant == "grpo" else 300
    config.log_every = 5
    config.evaluation.update(every=0, episodes=256)
    return config
