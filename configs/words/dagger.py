"""Wordle in words from 500 labels of the expert: in the policy's own states (DAgger), or not.

Ross, Gordon and Bagnell (2011), https://arxiv.org/abs/1011.0686 (recalled, not read). Rounds of
eight games every ten updates; the policy reads its own last two guesses and learns the expert's.

    python -m launchers.train --config=configs/words/dagger.py:dagger --workdir=runs/dagger_words

Five seeds, success of 512 tasks: dagger 0.178, bc 0.294: labels in the policy's own games are
behind (README.md).
"""

import ml_collections

from agentrl import losses, rollout
from agentrl.config import check_variant, env_section, section, term
from agentrl.methods.dagger import dagger
from configs._shared import language

ARMS = {"dagger": {}, "bc": {"decay": 1.0}}
VARIANTS = tuple(ARMS)


def get_config(variant: str = "dagger") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = language.config_of(
        "grpo",
        env_section("Wordle-v1"),
        section(rollout.episodes, num_groups=8, group_size=4),
        section(rollout.contexts.window, history=2),
        warm_updates=0,
        updates=200,
    )
    config.num_seeds = 5
    config.objective.policy.weight = 0.0
    config.reward = ml_collections.ConfigDict()
    options = {"episodes": 8, "every": 10, "rows": 64, "size": 2048, "labels": 500} | ARMS[variant]
    config.components.dagger = section(dagger, **options)
    config.objective.imitation = term(losses.behaviour_cloning, source="dagger", during="rl")
    config.learner.update(
        epochs=1, minibatches=1, microbatch=64, lengths=1, normalize_advantage="none"
    )
    config.optimizer.learning_rate = 3e-3
    config.log_every = 50
    config.evaluation.update(every=200, episodes=512)
    return config
