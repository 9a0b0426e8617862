r"""A chain of locked rooms in words: one reply keeps or sets a subgoal and acts, HAE or flat GAE.

HiPER (2026), https://arxiv.org/abs/2602.16165, as published: switch, subgoal and action are spans
of one reply, each with an advantage of its own ("hiper"; "standardized" by level, as in its
recipe; "consistent": turns that keep are charged, too); "flat" gives the reply one GAE. First
"sft", from its run "critic", then from that:

    python -m launchers.train --config=configs/hierarchy/key_door_spans.py:hiper \
        --workdir=runs/spans_hiper --config.init_from=runs/spans_critic

Five seeds, two CPU cores. Success: sft 0.45, flat 0.58, hiper 0.46; hiper less flat -0.125
[-0.221, -0.029]. More: README.md.
"""

import ml_collections

from agentrl import advantages, losses, rollout
from agentrl.config import check_variant, env_section, section, term
from agentrl.methods.decisions import decisions
from agentrl.methods.token_values import token_values
from configs._shared import language

LEARN = ("hiper", "standardized", "consistent", "flat")
UPDATES = {"sft": 100, "critic": 20} | dict.fromkeys(LEARN, 40)
VARIANTS = (*UPDATES,)


def get_config(variant: str = "hiper") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    learns, updates = variant != "sft", UPDATES[variant]
    doors = env_section("KeyDoor-v1", rooms=3, max_steps_in_episode=32)
    config = language.config_of(
        "ppo" if learns else "sft",
        env_section("envs.wrappers.Subgoals", base=doors),
        section(rollout.episodes, num_groups=64, group_size=1),
        section(rollout.contexts.window, history=0),
        warm_updates=0 if learns else updates,
        updates=updates,
    )
    config.num_seeds = 5
    config.log_every = 10
    config.policy = language.policy(critic="shared")
    config.objective.value.weight = 0.5
    config.learner.update(microbatch=64, lengths=1)
    config.evaluation.update(every=updates, episodes=512)
    rates = {"gamma": 0.99, "lam": 0.95}
    config.advantage = section(advantages.gae, **rates)
    if not learns:
        return config
    # The critic is ten times as fast as the policy, as in HiPER's recipe.
    config.optimizers = {"value_head": {"learning_rate": 3e-3}}
    config.learner.normalize_advantage = "none"
    if variant == "critic":
        config.optimizer.learning_rate = 0.0
        rates["lam"] = 1.0
    if variant != "flat":
        config.advantage = section(advantages.hae_by_span, subgoal_lam=rates["lam"], **rates)
        config.components.token_values = section(token_values)
        config.components.decisions = section(decisions)
        config.objective.value = term(losses.decision_value_loss, weight=0.5)
    if variant == "standardized":
        config.reweighting.levels = section(advantages.standardized_by_decision)
    if variant == "consistent":
        # HiPER's 0.3 in ALFWorld, where success pays 10.
        config.reward.keep_penalty = {"coefficient": 0.03}
    return config
