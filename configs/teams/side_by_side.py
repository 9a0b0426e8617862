r"""Three drafts of one answer, of which one goes on: by a selector who reads them, or by majority.

`CheckedSum-v1` with one answer, in `envs.wrappers.SideBySide`. "selector": the same policy takes
one of three drafts in a turn of its own; "majority": the commonest is played; "first": the first
one, as many words for nothing; "single": one draft, and three times as many episodes.

    python -m launchers.train --config=configs/teams/side_by_side.py:selector \
        --workdir=runs/drafts_selector

Five seeds, two to five busy minutes. Success: single 0.902, majority 0.889, first 0.865, selector
0.830 (README.md).
"""

import ml_collections

from agentrl import rollout
from agentrl.config import check_variant, env_section, section
from configs._shared import language

VARIANTS = ("selector", "majority", "first", "single")
DRAFTS = 3


def get_config(variant: str = "selector") -> ml_collections.ConfigDict:
    check_variant(variant, VARIANTS)
    single = variant == "single"
    # Turns of an episode, and as many illegal replies.
    turns = 2 * (1 if single else DRAFTS + (variant == "selector"))
    game = env_section(
        "CheckedSum-v1", question="largest", terms=4, modulus=9, loops=1, max_steps_in_episode=turns
    )
    config = language.config_of(
        "grpo",
        env_section(
            "envs.wrappers.SideBySide",
            base=env_section("envs.wrappers.OneTranscript", base=game),
            drafts=1 if single else DRAFTS,
            select="first" if single else variant,
        ),
        section(rollout.episodes, num_groups=24 if single else 8, group_size=8),
        section(rollout.contexts.window, history=0),
        warm_updates=30,
        updates=100,
    )
    config.num_seeds = 5
    config.log_every = 10
    config.expert.noise = 0.3
    config.evaluation.update(every=30, episodes=512)
    # Rows are single turns: 128 or 96 in a minibatch.
    config.learner.update(microbatch=64 if variant == "selector" else 96, lengths=1)
    return config
