r"""TeamGraph-v1: build a team by single edits; credit by the whole team, or by the edits, too.

MasHost (2025; no code, no equations published, reconstructed from reviews). "grpo": the finished
team alone. "hrpo": and the edits: an agent of a role that is there already, or that the task does
not need, costs. "price": GRPO, where members cost. "exempt": the first two edits are not judged.

    python -m launchers.train --config=configs/teams/team_graph.py:hrpo --workdir=runs/team

Five seeds, two CPU cores: 30 s. Success and useless members: hrpo 0.944, 0.2 %; grpo 0.942, 3.2 %;
price 0.879, 2.4 %; exempt 0.944, 0.4 % (README.md).
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section
from agentrl.methods.edit_rewards import edit_rewards

VARIANTS = ("hrpo", "grpo", "price", "exempt")


def get_config(variant: str = "hrpo") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = base_config()
    config.num_seeds = 5
    config.updates = 200
    config.log_every = 20
    config.env = env_section("TeamGraph-v1", price=0.05 if variant == "price" else 0.0)
    config.policy = section(policies.mlp, hidden=(64, 64), critic="none")
    config.rollout = section(rollout.episodes, num_groups=32, group_size=16, mask_illegal=True)
    # Without a weight of the edits `hrpo` is GRPO; the component counts useless members for all.
    judged = variant in ("hrpo", "exempt")
    config.components.edit_rewards = section(edit_rewards, exempt=2 * (variant == "exempt"))
    config.advantage = section(advantages.hrpo, edit_weight=5.0 if judged else 0.0)
    config.learner.update(minibatches=4)
    config.objective.entropy.weight = 0.01
    config.optimizer.learning_rate = 1e-3
    return config
