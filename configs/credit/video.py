"""Video-v1: where to look in a long video. Rewards of looks, behind the outcome's gate or not.

Video-MTR (2025), https://arxiv.org/abs/2508.20478 (code read, the gate from notes). "gated": looks
that show more of the relevant frames pay 0.5 if the answer is right; "ungated": always, as the
release does; "explore": gated, and 0.1 for any look while less than half of the turns look;
"outcome": the answer alone; "single": no turn but the answer. GAE over turns, discount 0.95.

    python -m launchers.train --config=configs/credit/video.py:gated --workdir=runs/gated

Five seeds, two busy CPU cores: 2 minutes. Success of 1,024 tasks: gated 0.82, explore 0.82, outcome
0.62, single 0.12, ungated 0.08, which looks and never answers (README.md).
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section
from agentrl.methods.looking import looking

VARIANTS = ("gated", "ungated", "explore", "outcome", "single")


def get_config(variant: str = "gated") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = base_config()
    config.num_seeds = 5
    config.updates = 1500
    config.log_every = 50
    config.env = env_section("Video-v1", digits=8, turns=1 if variant == "single" else 4)
    config.policy = section(policies.mlp, hidden=(64, 64), critic="shared")
    config.rollout = section(rollout.episodes, num_groups=32, group_size=8)
    config.advantage = section(advantages.gae, gamma=0.95, lam=0.95)
    if variant in ("gated", "ungated", "explore"):
        more = {"explore": 0.1} if variant == "explore" else {}
        config.components.looking = section(looking, **more)
        # Actions of arrays have no format.
        config.reward.gated_turn_rewards = {"gated": variant != "ungated", "format_reward": 0.0}
    config.learner.update(epochs=2, minibatches=4, normalize_advantage="batch")
    config.objective.entropy.weight = 0.03
    config.objective.value.weight = 0.5
    config.optimizer.learning_rate = 1e-3
    config.evaluation.update(every=1500, episodes=1024)
    return config
