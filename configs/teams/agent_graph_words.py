r"""AgentGraph-v1 in words: a transformer from scratch writes the whole team in one reply.

MAS-Orchestra (code read): one reply, `<answer>reflect 3||reflect 3 <1||run</answer>`, is the team.
SFT on the expert, then GRPO on what the team earns; a reply that is not a team earns nothing. Four
to six nodes in 1 or 2 graphs, so that who has to read whom depends on the task. "sft": SFT alone.
MasHost's edits, one per reply, from "edits_sft": "parallel" (GRPO), "hrpo" (an edit is also paid).

    python -m launchers.train --config=configs/teams/agent_graph_words.py:grpo --workdir=runs/words

One seed, from a run of "sft" (--config.init_from), minutes on two busy CPU cores: right teams of
256 0.129 after 40 updates of SFT, 0.750 after 80, 0.941 after 40 of GRPO more (README.md).
Five seeds: edits_sft 0.845, parallel 0.790, hrpo 0.492.
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section
from agentrl.methods.edit_marginals import edit_marginals
from configs._shared import language
from configs.teams import agent_graph

EDITS = ("edits_sft", "parallel", "hrpo")
VARIANTS = ("grpo", "sft", *EDITS)
SFT = 40


def get_config(variant: str = "grpo") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    if variant in EDITS:
        return _edits(variant)
    config = base_config()
    config.num_seeds = 1
    config.updates = SFT + 40 * (variant == "grpo")
    config.log_every = 5
    config.env = env_section("AgentGraph-v1", price=0.01, **agent_graph.TASKS["parallel"])
    config.policy = section(
        policies.transformer, width=48, layers=2, heads=2, kv_heads=2, hidden=96,
        grammar="answer", think="none", max_actions=4,
    )  # fmt: skip
    config.rollout = section(rollout.episodes, num_groups=16, group_size=8, max_turns=1)
    config.context = section(rollout.contexts.window, history=0)
    config.advantage = section(advantages.grpo, normalize="mean")
    config.warm_start.update(updates=SFT, learning_rate=3e-3)
    config.expert.update(episodes=64)
    config.learner.update(minibatches=4, microbatch=16, normalize_advantage="batch")
    config.objective.entropy.weight = 0.003
    config.optimizer.learning_rate = 1e-3
    config.evaluation.update(every=SFT, episodes=256)
    return config


def _edits(variant: str) -> ml_collections.ConfigDict:
    """Teams that are built edit by edit, a reply each."""
    first = variant == "edits_sft"
    config = language.config_of(
        "sft" if first else "grpo",
        env_section("AgentGraph-v1", price=0.01, **agent_graph.PARALLEL),
        section(rollout.episodes, num_groups=16, group_size=8),
        section(rollout.contexts.window, history=0),
        warm_updates=60 if first else 0,
        updates=60,
    )
    config.num_seeds = 5
    config.log_every = 10
    config.reward = {}
    config.evaluation.update(every=config.updates, episodes=1024)
    if not first:
        # Without a weight of the edits `hrpo` is GRPO; the component counts for both.
        weight = 1.0 * (variant == "hrpo")
        config.components.edit_marginals = section(edit_marginals)
        config.advantage = section(advantages.hrpo, edit_weight=weight, normalize="mean")
        config.optimizer.learning_rate = 1e-3
    return config
