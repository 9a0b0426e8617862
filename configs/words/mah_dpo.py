r"""TradingDesk-v1 in words: right decisions and few queries, by a head each, mixed after training.

MAH-DPO (2025), https://arxiv.org/abs/2510.01167. "heads": pairs by the return train one head, pairs
by the number of turns another; "trunk": the shared layers move ten times as fast. "sum": one head,
DPO on the weighted sum, in which a query costs 0.2.

    python -m launchers.train --config=configs/words/mah_dpo.py:sft --workdir=runs/desk_sft
    python -m launchers.train --config=configs/words/mah_dpo.py:heads --workdir=runs/desk_heads \
        --config.init_from=runs/desk_sft

Five seeds, two CPU cores. Turns and success of 512 tasks: SFT 3.35, 0.556; weights 1, 0: 3.20,
0.582; 0.5, 0.5: 2.75, 0.574; 0, 1: 1.79, 0.437; "sum" 2.52, 0.521. More: README.md.
"""

import ml_collections

from agentrl import losses, rollout
from agentrl.config import check_variant, env_section, section, term
from agentrl.methods.pairs import pairs
from agentrl.methods.start_sampler import start_sampler
from configs._shared import language

VARIANTS = ("sft", "heads", "trunk", "sum")


def get_config(variant: str = "heads") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    price = 0.2 if variant == "sum" else 0.0
    env = env_section("TradingDesk-v1", hold_share=1 / 3, query_cost=price)
    acting = section(rollout.episodes, num_groups=8, group_size=8)
    context = section(rollout.contexts.whole)
    method = "sft" if variant == "sft" else "grpo"
    config = language.config_of(method, env, acting, context, warm_updates=120, updates=80)
    config.num_seeds = 5
    config.log_every = 20
    config.evaluation.update(every=120, episodes=512)
    config.reward = {}
    if variant == "sft":
        return config
    # From the run of "sft" (config.init_from).
    config.updates, config.warm_start.updates = 80, 0
    config.evaluation.every = 80
    config.learner.update(minibatches=1, microbatch=None, lengths=1)
    # Without it DPO of either objective ends in replies that are no legal command (README.md).
    config.policy.constrained = True
    # What the trunk learns of one objective, all heads do.
    config.optimizer.learning_rate = 1e-4 if variant == "trunk" else 1e-5
    config.optimizers.output_heads = {"learning_rate": 1e-3}
    config.objective.policy.weight = 0.0
    config.components.start_sampler = section(start_sampler)
    objectives = ("return",) if variant == "sum" else ("return", "turns")
    config.policy.output_heads = len(objectives)
    for head, by in enumerate(objectives):
        config.components[f"by_{by}"] = section(pairs, by=by, head=head)
        config.objective[f"by_{by}"] = term(losses.dpo, source=f"by_{by}")
    return config
