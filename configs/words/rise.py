"""A sum in words, five answers with the wrong ones in sight: better answers are imitated (RISE).

Qu et al. (2024), https://arxiv.org/abs/2407.18219 (from notes). "self": the best of 16 answers of
the policy in each of its states, weighted by reward; "one": its own answers, reward-weighted;
"distil": the expert's; "grpo": GRPO on the same episodes.

    python -m launchers.train --config=configs/words/rise.py:sft --workdir=runs/sums_sft
    python -m launchers.train --config=configs/words/rise.py:self --workdir=runs/sums_self \
        --config.init_from=runs/sums_sft

Five seeds, four minutes. Success in five attempts: sft 0.61, self 0.78, distil 0.77, one 0.67,
grpo 0.66 (README.md).
"""

import ml_collections

from agentrl import losses, rollout
from agentrl.config import check_variant, env_section, section, term
from agentrl.methods.rise import rise
from configs._shared import language

ARMS = {
    "self": {},
    "one": {"samples": 1},
    "distil": {"improved": "expert"},
}
VARIANTS = ("sft", "grpo", *ARMS)
SUM = {"turns": 1, "keys": 2, "pairs": 3, "span": 2, "limit": 4, "recall": 0}


def get_config(variant: str = "self") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    config = language.config_of(
        "sft" if variant == "sft" else "grpo",
        env_section("envs.wrappers.Attempts", base=env_section("DictSum-v1", **SUM)),
        section(rollout.episodes, num_groups=16, group_size=8),
        section(rollout.contexts.window, history=0),
        warm_updates=200 if variant == "sft" else 0,
        updates=60,
    )
    config.num_seeds = 5
    config.log_every = 10
    config.evaluation.update(every=config.updates, episodes=1024)
    config.reward = ml_collections.ConfigDict()
    if variant in ARMS:
        config.objective.policy.weight = 0.0
        options = {"episodes": 64, "temperature": 0.5} | ARMS[variant]
        config.components.rise = section(rise, **options)
        config.objective.imitation = term(losses.weighted_imitation, source="rise", during="rl")
        config.learner.update(epochs=2, minibatches=4, normalize_advantage="none")
        config.optimizer.learning_rate = 1e-3
    return config
