r"""Policies from a data set of transitions, without an episode of their own.

Behaviour cloning (all, the best tenth, the expert's), Monte Carlo returns, IQL, ILQL
(https://arxiv.org/abs/2206.11871), f-DVL, XQL and ReCOIL (https://arxiv.org/abs/2302.08560), VEM
(https://arxiv.org/abs/2502.18906), from 16 episodes of the expert, 64 random and 192 noisy ones.

    python -m launchers.train --config=configs/offline/data_sets.py:rooms_ilql --workdir=runs/ilql

Five seeds: about 20 s of processor time. Success on 1,024 tasks in two rooms: filtered 0.93, mc
0.75, recoil 0.72, ilql 0.70, iql 0.70, xql 0.70, chi2 0.68, tv 0.59, bc_expert 0.52, bc 0.39, vem
and vem_baseline 0 (README.md).
"""

import ml_collections

from agentrl import losses, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section, term
from agentrl.methods.offline_values import offline_values

ENVS = {
    "lake": env_section("FrozenLake-v1", size=4, slippery=False),
    "rooms": env_section("KeyDoor-v1", rooms=2),
}
VEM = {"target": "labels", "actions": "policy", "temperature": 0.5, "critic_first": 50}
METHODS = {
    "bc": {"beta": 0.0, "steps": 0},
    "filtered": {"beta": 0.0, "steps": 0, "best": 0.1},
    "bc_expert": {"beta": 0.0, "steps": 0, "expert_share": 1.0},
    "mc": {"target": "returns", "temperature": 0.5},
    "iql": {},
    "ilql": {"conservative": 0.01},
    "chi2": {"implicit": "chi2"},
    "tv": {"implicit": "total_variation", "temperature": 0.8},
    "xql": {"implicit": "reverse_kl", "temperature": 1.0},
    "recoil": {"target": "recoil", "implicit": "chi2", "expert_share": 0.5},
    "vem": VEM | {"weights": "value", "beta": 0.5},
    "vem_baseline": VEM | {"weights": "advantage", "beta": 0.5},
}
VARIANTS = tuple(f"{env}_{method}" for env in ENVS for method in METHODS)


def get_config(variant: str = "rooms_ilql") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    env, _, method = variant.partition("_")
    config = base_config()
    config.num_seeds = 5
    config.updates = 150
    config.log_every = 50
    config.env = ENVS[env]
    config.policy = section(policies.mlp, hidden=(64, 64), critic="none")
    config.rollout = section(rollout.episodes, num_groups=16, group_size=8)
    config.objective.policy.weight = 0.0
    options = {"expert": 16, "random": 64, "mixed": 192} | METHODS[method]
    config.components.offline_values = section(offline_values, **options)
    config.objective.offline = term(losses.weighted_imitation, source="offline_values")
    config.learner.update(epochs=1, minibatches=4, normalize_advantage="none")
    config.optimizer.learning_rate = 3e-3
    config.evaluation.update(every=150, episodes=1024)
    return config
