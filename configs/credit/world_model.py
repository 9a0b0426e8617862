r"""FrozenLake, and a model of it in which the policy learns too (Dyna), or the lake alone.

Sutton (1991), Dyna (recalled), with group-relative credit in the model.

    python -m launchers.train --config=configs/credit/world_model.py:model \
        --workdir=runs/world_model

Three seeds, two busy CPU cores: 2 minutes. Mean success over the run: model 0.51, none 0.48; at the
end 0.79, 0.78, 0.76 and 0.76, 0.74, 0.69, of the same real episodes.
"""

import ml_collections

from agentrl import advantages, losses, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section, term
from agentrl.methods.world_model import world_model

VARIANTS = ("model", "none")


def get_config(variant: str = "model") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = base_config()
    config.num_seeds = 3
    config.updates = 200
    config.log_every = 20
    config.env = env_section("FrozenLake-v1", size=3, slippery=False, max_steps_in_episode=8)
    config.policy = section(policies.mlp, hidden=(64, 64), critic="none")
    config.rollout = section(rollout.episodes, num_groups=8, group_size=4)
    config.advantage = section(advantages.grpo)
    config.optimizer.learning_rate = 1e-3
    if variant == "model":
        # Eight times as many imagined episodes as real ones.
        config.components.world_model = section(world_model, num_groups=64, group_size=4)
        config.objective.imagined = term(losses.clipped_surrogate, source="world_model")
    return config
