r"""SearchQA in words: WebDancer's questions, easy ones alone or harder ones, and RL on them.

Wu et al. (2025), https://arxiv.org/abs/2505.22648 (from notes, no code read). After SFT on one and
two hops DAPO on no more ("easy_1" to "easy_3"), on up to three hops after "easy_1" ("grown_2",
"grown_3") or at once ("at_once_1" to "at_once_3"). A stage is 30 updates. Variants: who makes them.

    python -m launchers.train --config=configs/words/web_dancer_synthesis.py --workdir=runs/made
    python -m launchers.evaluate --workdir=runs/made/grown_3 --noexpert --episodes=512 \
        --options=min_hops=3,max_hops=3,split=unseen,max_steps_in_episode=6

Five seeds, 5 minutes. Held-out questions of three hops, harden and crawl: cold 0.011, 0.007, easy_3
0.013, 0.010, grown_3 0.036, 0.032, at_once_3 0.047, 0.025: who never searched thrice does not.
"""

import ml_collections

from agentrl import advantages, losses, rollout
from agentrl.config import env_section, section, term
from configs._shared import language

# The stage that a stage starts from, and most hops of its questions.
STAGES = {
    "cold": (None, 2),
    "easy_1": ("cold", 2),
    "easy_2": ("easy_1", 2),
    "easy_3": ("easy_2", 2),
    "grown_2": ("easy_1", 3),
    "grown_3": ("grown_2", 3),
    "at_once_1": ("cold", 3),
    "at_once_2": ("at_once_1", 3),
    "at_once_3": ("at_once_2", 3),
}
SFT, RL = 400, 30


VARIANTS = {
    "harden": "an easy question's entity becomes a question of its own, E2HQA",
    "crawl": "where a walk over pages leads, CRAWLQA",
}


def get_config(variant: str = "harden") -> ml_collections.ConfigDict:
    if variant not in VARIANTS:
        raise ValueError(f"variant {variant!r}: expected one of {', '.join(VARIANTS)}")
    return ml_collections.ConfigDict({"stages": {name: _stage(name, variant) for name in STAGES}})


def _stage(name: str, synthesis: str) -> ml_collections.ConfigDict:
    start, hops = STAGES[name]
    env = env_section(
        "SearchQA-v1", objectives=1, entities=20, relations=4, max_hops=hops, format_reward=1 / 9,
        synthesis=synthesis,
    )  # fmt: skip
    acting = section(rollout.episodes, num_groups=8, group_size=8)
    context = section(rollout.contexts.whole)
    method = "grpo" if start else "sft"
    config = language.config_of(method, env, acting, context, warm_updates=0, updates=RL)
    config.num_seeds, config.log_every = 5, 10
    config.learner.update(microbatch=None, lengths=1)
    if start is None:
        config.updates = config.warm_start.updates = SFT
        return config
    config.updates = RL
    config.init_from = f"stage:{start}"
    config.filters.dynamic_sampling = section(advantages.dynamic_sampling)
    config.objective.policy = term(losses.clipped_surrogate, clip_high=0.28)
    return config
