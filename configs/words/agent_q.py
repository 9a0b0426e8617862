"""Tool calls in words by preferences between turns of search trees (Agent Q) or episodes, or GRPO.

Putta et al. (2024), Agent Q, https://arxiv.org/abs/2408.07199. As configs/credit/agent_q.py, from
an SFT policy; the KV cache of an episode's end serves all forks from it. "refuel" is REFUEL's
regression.

    python -m launchers.train --config=configs/words/agent_q.py:sft --workdir=runs/pairs_sft
    python -m launchers.train --config=configs/words/agent_q.py:agent_q --workdir=runs/pairs_q \
        --config.init_from=runs/pairs_sft

Five seeds, two busy CPU cores: 3 minutes. Success at 44,000 sampled tokens: SFT 0.26, tree_grpo
0.80, GRPO 0.77, refuel 0.67, Agent Q 0.63 (one seed 0), DPO 0.60 (README.md).
"""

import ml_collections

from agentrl import advantages, losses, rollout
from agentrl.config import check_variant, env_section, section, term
from agentrl.methods.pairs import pairs
from agentrl.methods.siblings import own_turns, siblings
from agentrl.methods.trees import trees
from configs._shared import language

VARIANTS = ("agent_q", "refuel", "dpo", "tree_grpo", "grpo", "sft")


def get_config(variant: str = "agent_q") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    sizes = {"num_groups": 16, "group_size": 8}
    grows = variant in ("agent_q", "tree_grpo")
    search = section(trees, **sizes, rule="uct", width=2, together=2)
    first = variant == "sft"
    config = language.config_of(
        "sft" if first else "grpo",
        env_section("ToolCalls-v1", tools=3, arguments=3, needed=2, limit=5),
        search if grows else section(rollout.episodes, **sizes),
        section(rollout.contexts.whole),
        warm_updates=35 if first else 0,
        updates=80,
    )
    config.num_seeds = 5
    config.reward = {}
    config.evaluation.update(every=config.updates if first else 20, episodes=512)
    if first:
        config.log_every = 5
        return config
    if variant == "tree_grpo":
        config.reweighting.shared_prefix = section(advantages.shared_prefix)
        config.components.own_turns = section(own_turns)
    if variant == "agent_q":
        config.components.siblings = section(siblings)
        config.objective.policy.weight = 0.0
        config.objective.dpo = term(losses.behaviour_dpo, source="siblings")
    if variant == "refuel":
        # Two episodes of a task that part at any turn, and as many episodes.
        config.rollout = section(trees, num_groups=64, group_size=2, rule="uniform")
        config.components.siblings = section(siblings, pairs=1, ties=True)
        config.objective.policy.weight = 0.0
        config.objective.dpo = term(losses.refuel, source="siblings")
    if variant == "dpo":
        config.components.pairs = section(pairs)
        config.objective.policy.weight = 0.0
        config.objective.dpo = term(losses.behaviour_dpo, source="pairs")
    return config
