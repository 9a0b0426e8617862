r"""TradingDesk-v1 in words by RPO: groups of tasks drawn by learning potential, or evenly."""

import ml_collections

from agentrl import losses, rollout
from agentrl.config import check_variant, env_section, section, term
from agentrl.methods.pairs import pairs
from agentrl.methods.paprika import paprika
from agentrl.methods.routing import assigned_tasks
from configs._shared import language

# Days on which HOLD is right, in three groups; in a fourth the tools tell nothing.
HOLD_SHARES, LAST = (0.95, 0.8, 1 / 3), 1 / 3
VARIANTS = ("uniform", "curriculum", "uniform_noise", "curriculum_noise")


def get_config(variant: str = "curriculum") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    rule, _, noise = variant.partition("_")
    env = env_section("TradingDesk-v1", hold_share=LAST, query_cost=0.0)
    acting = section(rollout.episodes, num_groups=16, group_size=8)
    context = section(rollout.contexts.whole)
    config = language.config_of("grpo", env, acting, context, warm_updates=0, updates=40)
    # From the run of mah_dpo.py:sft (config.init_from).
    config.num_seeds = 5
    config.log_every = 10
    config.optimizer.learning_rate = 1e-3
    config.learner.update(minibatches=1, microbatch=None, lengths=1)
    config.policy.constrained = True
    config.evaluation.update(every=config.updates, episodes=512)
    config.reward = {}
    config.sampler = section(assigned_tasks)
    options = {"parameters": ("hold_share",), "values": (HOLD_SHARES,)}
    if noise:
        options = {
            "parameters": ("hold_share", "reliability"),
            "values": ((*HOLD_SHARES, LAST), (1.0, 1.0, 1.0, 0.0)),
        }
    rule = "ucb" if rule == "curriculum" else "uniform"
    config.components.paprika = section(paprika, rule=rule, **options)
    config.components.pairs = section(pairs, rejected="lower")
    config.objective.policy.weight = 0.0
    config.objective.rpo = term(losses.rpo, source="pairs")
    return config
