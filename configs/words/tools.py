r"""Tools: a price that has to be asked for, a calculator, an answer.

configs/_shared/price_desk.py: "7 fig?", `price fig`, "4", `calc 7*4`, "28", `28`. 150 updates on a
program's trajectories (":FILE"), an expert (":graph", tools in the graph), or none; then GRPO.

    python -m launchers.demonstrate --env=configs._shared.price_desk:make \
        --solve=configs._shared.price_desk:solve --episodes=128 --out=prices_adp.jsonl
    python -m launchers.trajectories --from_adp=prices_adp.jsonl --to=prices.jsonl \
        --config=configs/words/tools.py
    python -m launchers.train --config=configs/words/tools.py:prices.jsonl --workdir=runs/tools

Three seeds, two busy CPU cores: 5 minutes each. Success of 512 tasks: 0.94, SFT 0.84 (README.md).
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, env_section, section
from agentrl.trajectories import file
from configs._shared.pure_price_desk import PriceDesk

VARIANTS = {
    "": "from nothing, by GRPO alone",
    "graph": "pure tools in the compiled rollout, after SFT on their expert",
    "FILE": "a file of trajectories, on which it is supervised first",
}


def get_config(variant: str = "") -> ml_collections.ConfigDict:
    config = base_config()
    config.env = env_section("configs._shared.price_desk:make")
    config.rollout = section(rollout.episodes, num_groups=16, group_size=8, max_turns=4)
    config.context = section(rollout.contexts.whole, max_new_tokens=12)
    config.policy = section(
        policies.transformer, codec="byte", width=64, layers=2, heads=4, kv_heads=4, hidden=192
    )
    config.advantage = section(advantages.grpo, normalize="mean")
    config.optimizer.learning_rate = 3e-4
    config.updates = 300
    config.log_every = 5
    config.evaluation.update(every=0, episodes=256)
    if variant == "graph":
        config.env = env_section(PriceDesk)
        config.warm_start.update(updates=150, learning_rate=3e-3)
        config.evaluation.update(every=150, episodes=512)
        return config
    config.host.update(workers=8, observation_tokens=12)
    if variant:
        config.components.file = section(file, path=variant, rows=64)
        config.objective.imitation.source = "file"
        config.warm_start.update(updates=150, learning_rate=3e-3)
    return config
