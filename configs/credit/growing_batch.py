"""KeyDoor by the policy's own solved episodes: of all rounds, or of the last one alone.

After ReST meets ReAct (2023), https://arxiv.org/abs/2312.10003 (from notes), without its new start
from the base model in each round. 20 updates on eight demonstrations come first.

    python -m launchers.train --config=configs/credit/growing_batch.py:grown --workdir=runs/grown

Five seeds, a minute of processor time. Success of 1,024 tasks: grown 0.508, last 0.554
(README.md).
"""

import ml_collections

from agentrl import losses, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section, term
from agentrl.methods.growing_batch import growing_batch

ARMS = {"grown": {}, "last": {"rounds": 1}}
VARIANTS = tuple(ARMS)


def get_config(variant: str = "grown") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = base_config()
    config.num_seeds = 5
    config.updates = 200
    config.log_every = 10
    config.env = env_section("KeyDoor-v1", rooms=2)
    config.policy = section(policies.mlp, hidden=(64, 64), critic="none")
    config.rollout = section(rollout.episodes, num_groups=32, group_size=4)
    config.warm_start.update(updates=20, learning_rate=3e-3)
    config.expert.update(episodes=8, demonstrations=8)
    config.objective.policy.weight = 0.0
    config.components.growing_batch = section(growing_batch, **ARMS[variant])
    config.objective.own = term(losses.behaviour_cloning, source="growing_batch", during="rl")
    config.learner.update(epochs=2, minibatches=4, normalize_advantage="none")
    config.optimizer.learning_rate = 1e-3
    config.evaluation.update(every=20, episodes=1024)
    return config
