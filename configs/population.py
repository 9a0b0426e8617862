"""Population-based training: eight seeds that copy each other and tune what they learn with.

Jaderberg et al. (2017), https://arxiv.org/abs/1711.09846; selection as in Sample Factory, Petrenko
et al. (2020), https://arxiv.org/abs/2006.11751.

    for s in 0 8 16; do for e in rates rates_alone shaping shaping_alone; do
        python -m launchers.train --config=configs/population.py:$e --workdir=runs/${e}_$s \\
            --config.seed=$s --config.evaluation.every=200; done; done

One to three minutes each on two cores that other jobs used too. "_alone" are the same members from
the same numbers, of whom nobody copies and nothing moves: a random search of the same cost. Success
on 256 tasks at the end, three populations each: the mean of the eight members, and the one that was
best in its last 20 updates of training.

    rates           mean .88 .95 .96   best .70 .98 .96
    rates_alone     mean .38 .32 .40   best .98 .96 .93
    shaping         mean .44 .53 .43   best .50 .53 .43
    shaping_alone   mean .28 .26 .27   best .42 .30 .34

Rates spread over 1e-5 to 1e-1 end between 1e-3 and 7e-3, and nearly everybody learns; yet the best
of eight fixed rates does as well as the best of the population, and picking it by its training can
miss (.70). What a step costs, spread over 0.01 to 1, ends at 0.01 to 0.05, most of it at the lower
bound. Eight members that are given 0.01 from the start and do not copy have mean .35 .32 .36 and
best .48 .43 .46: the best is about what one gets who knows the answer, and copying lifts the mean.
A population is one sample, so these are three of each.
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, env_section, section

EXPERIMENTS = ("rates", "rates_alone", "shaping", "shaping_alone")


def get_config(experiment: str = "rates") -> ml_collections.ConfigDict:
    if experiment not in EXPERIMENTS:
        raise ValueError(
            f"configs/population.py:{experiment}: expected one of {', '.join(EXPERIMENTS)}"
        )
    what, _, alone = experiment.partition("_")
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
        # Four decades; configs/coin.py's own rate, found by a sweep, lies in the last but one.
        config.env = env_section("Coin-v1", quest_length=5, distractors=2, max_steps_in_episode=20)
        config.population.tuned = {"optimizer": {"learning_rate": (1e-5, 1e-1)}}
    else:
        # Every step costs, and a hole ends the episode: dear steps make it the best place to go.
        config.env = env_section("FrozenLake-v1", size=5, slippery=False, max_steps_in_episode=20)
        config.reward.step_penalty = {"amount": 0.1}
        config.population.tuned = {"reward": {"step_penalty": {"amount": (0.01, 1.0)}}}
    if alone:
        # The same members, from the same numbers: nobody copies, nothing moves.
        config.population.update(bottom=0.0, probability=0.0)
    return config
