"""Self-play in Kuhn's and Leduc's poker: policy gradients with a baseline per seat (RAE).

Liu et al. (2025), SPIRAL, https://arxiv.org/abs/2506.24119 (RAE). Kuhn's game is regularised by a
KL to recent parameters, as in Perolat et al. (2022), DeepNash, https://arxiv.org/abs/2206.15378;
Leduc's by an entropy bonus that falls from 1 to 0.25 chips per nat.

    python -m launchers.train --config=configs/games/poker.py:leduc --workdir=runs/leduc

Two CPU cores, 2 min 12 s (kuhn) and 6 min 27 s (leduc) for five seeds. Expected exploitability
(NashConv / 2, exact): kuhn 0.0056 to 0.0159, leduc 0.222 to 0.282; uniform play 0.458 and 2.374.
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section

VARIANTS = ("kuhn", "leduc")


def get_config(variant: str = "kuhn") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = base_config()
    config.log_every = 50
    config.policy = section(policies.mlp, hidden=(64, 64), critic="none")
    config.rollout = section(rollout.episodes, num_groups=1024, group_size=1, mask_illegal=True)
    config.advantage = section(advantages.rae_by_turn)
    # No momentum: it carries self-play past an equilibrium and around it.
    config.optimizer.update(schedule="linear", b1=0.0)
    if variant == "kuhn":
        config.updates = 4000
        config.rollout.num_groups = 2048
        config.env = env_section("KuhnPoker-v1", max_steps_in_episode=3)
        config.reference.every = 25
        config.objective.kl.update(weight=1.0, estimator="k2")
        config.objective.entropy.update(weight=0.1, final_weight=0.01)
        config.optimizer.learning_rate = 3e-3
    else:
        config.updates = 4000
        config.env = env_section("LeducPoker-v1", max_steps_in_episode=8)
        config.objective.entropy.update(weight=1.0, final_weight=0.25)
        config.optimizer.learning_rate = 1e-2
    return config
