r"""A chain of locked rooms in words: one reply keeps or sets a subgoal and acts, HAE or flat GAE.

HiPER (2026), https://arxiv.org/abs/2602.16165, as published: switch, subgoal and action are spans
of one reply, each with an advantage of its own ("hiper"); "flat" gives the reply one GAE. "plain"
is flat without subgoals. First an SFT, then each from the run that has its replies:

    python -m launchers.train --config=configs/hierarchy/key_door_spans.py:sft --workdir=runs/sft
    python -m launchers.train --config=configs/hierarchy/key_door_spans.py:hiper \
        --workdir=runs/hiper --config.init_from=runs/sft

No result yet.
"""

import ml_collections

from agentrl import advantages, losses, rollout
from agentrl.config import check_variant, env_section, section, term
from agentrl.methods.decisions import decisions
from agentrl.methods.token_values import token_values
from configs._shared import language

VARIANTS = ("sft", "hiper", "flat")
WARM, UPDATES = 100, 60


def get_config(variant: str = "hiper") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    env = env_section(
        "envs.wrappers.Subgoals", base=env_section("KeyDoor-v1", rooms=3, max_steps_in_episode=32)
    )
    acting = section(rollout.episodes, num_groups=64, group_size=1)
    context = section(rollout.contexts.window, history=0)
    learns = variant != "sft"
    config = language.config_of(
        "ppo" if learns else "sft", env, acting, context, warm_updates=WARM, updates=UPDATES
    )
    config.num_seeds = 5
    config.policy = language.policy(critic="shared")
    config.objective.value.weight = 0.5
    config.learner.update(microbatch=64, lengths=1)
    config.evaluation.episodes = 512
    rates = {"gamma": 0.99, "lam": 0.95}
    config.advantage = section(advantages.gae, **rates)
    if not learns:
        return config
    config.updates, config.warm_start.updates = UPDATES, 0
    config.evaluation.every = UPDATES
    if variant == "hiper":
        config.advantage = section(advantages.hae_by_span, subgoal_lam=0.95, **rates)
        config.components.token_values = section(token_values)
        config.components.decisions = section(decisions)
        config.objective.value = term(losses.decision_value_loss, weight=0.5)
        config.reweighting.levels = section(advantages.standardized_by_decision)
        config.learner.normalize_advantage = "none"
    return config
