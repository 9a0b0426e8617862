r"""CartPole from a file of episodes: cloning, filtered cloning, and implicit Q-learning.

"data" is PPO that writes its episodes on the way from random play; the file may be Minari's, too.

    python -m launchers.train --config=configs/offline/cartpole.py:data --workdir=runs/cartpole_data
    cat runs/cartpole_data/trajectories/*.jsonl > cartpole.jsonl
    python -m launchers.train --config=configs/offline/cartpole.py:iql,cartpole.jsonl \
        --workdir=runs/cartpole_iql

Five seeds, 20 s of processor time each. Greedy return from 96 episodes of mean 203: bc 424 (the
same with d3rlpy 380 [305, 455]), filtered 499, iql 460, ilql 451 (README.md).
"""

import ml_collections

from agentrl import advantages, losses, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section, term
from agentrl.methods.offline_values import offline_values

METHODS = {
    "bc": {"beta": 0.0, "steps": 0},
    "filtered": {"beta": 0.0, "steps": 0, "best": 0.1},
    "iql": {"gamma": 0.99},
    "ilql": {"gamma": 0.99, "conservative": 0.01},
}
VARIANTS = {
    "data": "PPO whose episodes are the data set",
    **{f"{method},FILE": "from a file of trajectories" for method in METHODS},
}


def get_config(variant: str = "data") -> ml_collections.ConfigDict:
    method, _, path = variant.partition(",")
    check_variant(method, ("data", *METHODS))
    config = base_config()
    config.env = env_section("CartPole-v1")
    config.policy = section(policies.mlp, hidden=(64, 64), critic="separate")
    config.rollout = section(rollout.episodes, num_groups=16, group_size=1)
    config.evaluation.greedy = True
    if method == "data":
        config.updates = 40
        config.log_every = 2
        config.advantage = section(advantages.gae, gamma=0.99, lam=0.95)
        config.learner.update(epochs=4, minibatches=4, normalize_advantage="batch")
        config.objective.value.weight = 0.5
        config.optimizer.learning_rate = 1e-3
        config.trajectories.update(every=2, most=8)
        return config
    config.num_seeds = 5
    config.updates = 150
    config.log_every = 50
    config.policy.critic = "none"
    config.objective.policy.weight = 0.0
    config.components.offline_values = section(offline_values, path=path, **METHODS[method])
    config.objective.offline = term(losses.weighted_imitation, source="offline_values")
    config.learner.update(epochs=1, minibatches=4, normalize_advantage="none")
    config.optimizer.learning_rate = 3e-3
    config.evaluation.update(every=150, episodes=256)
    return config
