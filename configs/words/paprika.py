r"""TradingDesk-v1 in words by RPO: groups of tasks drawn by learning potential, or evenly.

PAPRIKA: Tajwar et al. (2025), https://arxiv.org/abs/2502.17543. Three groups, in which HOLD is
right on 95, 80 and 33 % of the days; success is of the last one.

    python -m launchers.train --config=configs/words/paprika.py:sft --workdir=runs/desk_160
    python -m launchers.train --config=configs/words/paprika.py:curriculum --workdir=runs/paprika \
        --config.init_from=runs/desk_160

Five seeds, two CPU cores. Success of 512 tasks: SFT 0.864, curriculum 0.757, uniform 0.689, which
is level: RPO teaches to ask less. More: README.md.
"""

import ml_collections

from agentrl import losses, rollout
from agentrl.config import check_variant, env_section, section, term
from agentrl.methods.pairs import pairs
from agentrl.methods.paprika import paprika
from agentrl.methods.routing import assigned_tasks
from configs._shared import language
from configs.words import mah_dpo

# Days on which HOLD is right, in each group of tasks; evaluation is of the last one.
HOLD_SHARES = (0.95, 0.8, 1 / 3)
VARIANTS = ("sft", "uniform", "curriculum")


def get_config(variant: str = "curriculum") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    if variant == "sft":
        config = mah_dpo.get_config("sft")
        config.updates = config.warm_start.updates = config.evaluation.every = 160
        return config
    env = env_section("TradingDesk-v1", hold_share=HOLD_SHARES[-1], query_cost=0.0)
    acting = section(rollout.episodes, num_groups=16, group_size=8)
    context = section(rollout.contexts.whole)
    config = language.config_of("grpo", env, acting, context, warm_updates=0, updates=40)
    # From the run of "sft" (config.init_from).
    config.num_seeds = 5
    config.log_every = 10
    config.optimizer.learning_rate = 1e-3
    config.learner.update(minibatches=1, microbatch=None, lengths=1)
    config.policy.constrained = True
    config.evaluation.update(every=config.updates, episodes=512)
    config.reward = {}
    config.sampler = section(assigned_tasks)
    rule = "ucb" if variant == "curriculum" else "uniform"
    groups = {"parameters": ("hold_share",), "values": (HOLD_SHARES,)}
    config.components.paprika = section(paprika, rule=rule, **groups)
    config.components.pairs = section(pairs, rejected="lower")
    config.objective.policy.weight = 0.0
    config.objective.rpo = term(losses.rpo, source="pairs")
    return config
