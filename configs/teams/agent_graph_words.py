r"""AgentGraph-v1 in words: a transformer from scratch writes the whole team in one reply.

MAS-Orchestra (code read): one reply, `<answer>reflect 3||reflect 3 <1||run</answer>`, is the team.
SFT on the expert, then GRPO on what the team earns; a reply that is not a team earns nothing. Four
to six nodes in 1 or 2 graphs, so that who has to read whom depends on the task. "sft": SFT alone.

    python -m launchers.train --config=configs/teams/agent_graph_words.py:grpo --workdir=runs/words

One seed, from a run of "sft" (--config.init_from), minutes on two busy CPU cores: right teams of
256 0.129 after 40 updates of SFT, 0.750 after 80, 0.941 after 40 of GRPO more (README.md).
"""

import ml_collections

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, check_variant, env_section, section
from configs.teams import agent_graph

VARIANTS = ("grpo", "sft")
SFT = 40


def get_config(variant: str = "grpo") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
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
