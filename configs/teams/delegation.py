r"""Delegation-v1: a planner calls two workers in one turn, who work at the same time and may call.

"at_once": workers inherit the planner's advantage (arXiv:2510.04678), every step has a price.
"in_turn": the same calls are answered one after the other. "flat": workers call nobody. "lost": a
call is lost with chance 0.2. "words": a transformer plans and works, after 40 updates of SFT.

    python -m launchers.train --config=configs/teams/delegation.py:at_once --workdir=runs/calls

Five seeds ("words" one), one CPU core, 5 to 15 minutes. Success: at_once 0.925 in 6.3 steps,
in_turn 0.925 in 8.8 (one seed of five stops asking), flat 0.927, lost 0.47, words 0.75 (README.md).
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section
from configs._shared import language

OPTIONS = {
    "at_once": {},
    "in_turn": {"at_once": False},
    "flat": {"depth": 1},
    "lost": {"lost": 0.2},
    "words": {"calls": 3, "step_price": 0.0},
}
VARIANTS = tuple(OPTIONS)


def get_config(variant: str = "at_once") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    env = env_section("Delegation-v1", **{"calls": 4, "step_price": 0.001, **OPTIONS[variant]})
    if variant == "words":
        config = language.config_of(
            "grpo",
            env,
            section(rollout.episodes, num_groups=8, group_size=8),
            section(rollout.contexts.window, history=0),
            warm_updates=40,
            updates=100,
        )
        # Rows are single turns of one worker: 64 episodes of 13 steps and 7 agents.
        config.learner.update(microbatch=52, lengths=1)
    else:
        config = base_config()
        config.updates = 200
        config.env = env
        config.policy = section(policies.mlp, hidden=(64, 64), critic="none")
        config.rollout = section(rollout.episodes, num_groups=32, group_size=16, mask_illegal=True)
        config.learner.update(minibatches=4, normalize_advantage="batch")
        config.objective.entropy.weight = 0.01
        config.optimizer.learning_rate = 1e-3
        config.evaluation.update(every=200, episodes=4096)
    config.num_seeds, config.log_every = (1, 5) if variant == "words" else (5, 20)
    config.advantage = section(advantages.matpo)
    return config
