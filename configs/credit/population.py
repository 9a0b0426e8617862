r"""Population-based training: eight seeds that copy each other and tune their hyperparameters.

Jaderberg et al. (2017), https://arxiv.org/abs/1711.09846; selection as in Sample Factory, Petrenko
et al. (2020), https://arxiv.org/abs/2006.11751. "_alone": the same members without copying.

    python -m launchers.train --config=configs/credit/population.py:rates --workdir=runs/rates \
        --config.evaluation.every=200

Two CPU cores, one to three minutes. Expected mean success of the members, three populations:
rates 0.88, 0.95, 0.96, rates_alone 0.38, 0.32, 0.40; shaping 0.44, 0.53, 0.43, shaping_alone
0.28, 0.26, 0.27. The best members do not differ.
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section

VARIANTS = ("rates", "rates_alone", "shaping", "shaping_alone")


def get_config(variant: str = "rates") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    what, _, alone = variant.partition("_")
    config = base_config()
    config.num_seeds = 8
    config.updates = 200
    config.log_every = 10
    config.policy = section(policies.mlp, hidden=(64, 64), critic="none")
    config.rollout = section(rollout.episodes, num_groups=16, group_size=8)
    config.advantage = section(advantages.gigpo)
    config.learner.update(epochs=2, minibatches=4, normalize_advantage="batch")
    config.objective.entropy.weight = 0.03
    config.optimizer.learning_rate = 6e-3
    config.population.update(every=20, probability=0.5)
    if what == "rates":
        # Four decades; the rate of configs/credit/coin.py, found by a sweep, is in the last but
        # one.
        config.env = env_section("Coin-v1", quest_length=5, distractors=2, max_steps_in_episode=20)
        config.population.tuned = {"optimizer": {"learning_rate": (1e-5, 1e-1)}}
    else:
        # Every step has a cost, and a hole ends the episode: with a high cost the hole is
        # the best goal.
        config.env = env_section("FrozenLake-v1", size=5, slippery=False, max_steps_in_episode=20)
        config.reward.step_penalty = {"amount": 0.1}
        config.population.tuned = {"reward": {"step_penalty": {"amount": (0.01, 1.0)}}}
    if alone:
        # The same members with the same initial numbers, without copying or perturbation.
        config.population.update(bottom=0.0, probability=0.0)
    return config
