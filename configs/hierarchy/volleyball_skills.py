r"""Skills of volleyball drones, learnt over commands by body rates: PPO with GAE.

HCSP's first stage: Zhang et al. (2025), https://arxiv.org/abs/2505.04317; code thu-uav/HCSP (read).
Two conditioned skills, "goto" and "hit", cover HCSP's eleven. Games: "plane", "1v1", "3v3".

    python -m launchers.train --config=configs/hierarchy/volleyball_skills.py:3v3_hit \
        --workdir=runs/hit
    python -m launchers.evaluate --workdir=runs/hit --greedy --episodes=2048 --options=only=hcsp

Two CPU cores, 45 s in the plane. Expected success of the hit beside the script (one seed): plane
0.837 and 0.764, 1v1 0.766 and 0.509, 3v3 0.429 and 0.401. Details: README.md.
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section

VARIANTS = tuple(f"{game}_{skill}" for game in ("plane", "1v1", "3v3") for skill in ("goto", "hit"))


def get_config(variant: str = "plane_hit") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    game, _, skill = variant.partition("_")
    config = base_config()
    config.updates = 200 if game == "plane" else 400
    config.log_every = 20
    residual, log_std = (0.0, -1.0) if game == "plane" else (0.3, -1.5)
    config.env = env_section("VolleyballSkill-v1", teams=game, skill=skill, residual=residual)
    config.policy = section(policies.mlp, log_std=log_std)
    config.rollout = section(rollout.segments, num_envs=256, length=64)
    config.advantage = section(advantages.gae, gamma=0.99, lam=0.95)
    config.objective.value.weight = 0.5
    config.learner.update(epochs=4, minibatches=8, normalize_advantage="minibatch")
    config.optimizer.update(learning_rate=1e-3, schedule="linear")
    config.evaluation.update(episodes=1024, greedy=True)
    return config
