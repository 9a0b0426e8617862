r"""MARS-SQL: a grounder, a generator and a validator of queries, in words.

Yang et al. (2025), MARS-SQL, https://arxiv.org/abs/2511.01008. Queries-v1. "sft": imitation of the
expert; "grpo": from there GRPO of grounder and generator, 5 turns; "one_turn": the same without
execution; "verifier": an adapter of the validator on a trained policy, by cross-entropy.

    python -m launchers.train --config=configs/teams/mars_sql.py:grpo --workdir=runs/mars_sql
    python -m launchers.train --config=configs/teams/mars_sql.py:verifier \
        --workdir=runs/mars_verifier --config.init_from=runs/mars_sql

One seed, 2 to 4 minutes. Success: SFT 0.25, grpo 0.27; one_turn 0.32, by the verifier 0.60 of eight
attempts; 0.96 of the trained verifier's verdicts are right (README.md).
"""

import ml_collections

from agentrl import advantages, losses, rollout
from agentrl.config import check_variant, env_section, section, term
from agentrl.methods.verifier import verifier
from configs._shared import language

VARIANTS = ("grpo", "one_turn", "sft", "verifier")
WARM = 300


def get_config(variant: str = "grpo") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = language.config_of(
        "sft" if variant == "sft" else "grpo",
        env_section("Queries-v1", turns=1 if variant == "one_turn" else 5, joins=False),
        section(rollout.episodes, num_groups=8, group_size=8),
        section(rollout.contexts.window, history=0),
        warm_updates=WARM,
        updates=100,
    )
    config.log_every = 10
    # An expert that is always right would never show the validator what to say no to.
    config.expert.noise = 0.1
    config.reward = ml_collections.ConfigDict()
    config.filters.of_role = section(advantages.only_roles, roles=(0, 1))
    # Rows are single turns: a fourth of 64 episodes of 3 or 7.
    config.learner.update(microbatch=48 if variant == "one_turn" else 56, lengths=1)
    if variant == "verifier":
        config.policy.update(lora_rank=8, lora_roles=3)
        config.warm_start.updates, config.updates = 0, 100
        config.filters.of_role.roles = (2,)
        config.components.verifier = section(verifier)
        config.objective.policy.weight = 0.0
        config.objective.imitation = term(losses.behaviour_cloning, source="verifier", during="rl")
        config.learner.update(epochs=1, minibatches=1, microbatch=16, normalize_advantage="none")
        config.optimizer.learning_rate = 3e-4
        config.evaluation.every = 0
    return config
