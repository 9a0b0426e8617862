"""The methods a reader asks for first, with a language policy, under one protocol: WORLD,METHOD.

    python -m launchers.train --config=configs/comparison/words.py:coin,sft --workdir=runs/coin_sft
    python -m launchers.train --config=configs/comparison/words.py:coin,gigpo --workdir=runs/coin \
        --config.init_from=runs/coin_sft
    python -m launchers.compare --suite=words --workdir=runs/compare_words

A small transformer learns from the expert's episodes once per world and seed ("sft"), and all
methods go on from there. Budget of turns, network, episodes per update, tuning and seeds are the
same for all methods of a world (README.md); what differs between two of them is what their
functions here set.
"""

from collections.abc import Callable
from typing import NamedTuple

import ml_collections

from agentrl import advantages, rollout
from agentrl.config import env_section, section
from agentrl.methods.branching import branching
from configs._shared import language
from configs._shared.comparison import (
    IN_WORDS,
    RETURN,
    World,
    check_variant,
    dapo,
    epo,
    estimator,
    replay,
    starpo_s,
)

VARIANTS = {"WORLD,METHOD": 'one of WORLDS, and one of METHODS below or "sft"'}
PROTOCOL = IN_WORDS
# The run that all methods of a world start from.
START = "sft"

WORLDS = {
    # Rooms to search, and things to move: a long episode, one reward at the end.
    "household": World(env_section("Household-v1", expert_sees_all=False), 60_000),
    # Equal rooms, a quest with one reward at the end.
    "coin": World(env_section("Coin-v1"), 40_000),
    # Pages, options and a purchase: hardly any answer is right, many are in part.
    "shop": World(env_section("Shop-v1"), 15_000, score=RETURN),
    # Guesses with hints; all that was said has to be read.
    "wordle": World(env_section("Wordle-v1"), 20_000),
    # Questions that need what a search returns.
    "search": World(
        env_section("SearchQA-v1", objectives=1, entities=20, relations=4, max_hops=1), 20_000
    ),
}


class _Reading(NamedTuple):
    """What the policy reads before a reply, and on how many updates it is fine-tuned first."""

    context: ml_collections.ConfigDict
    sft: int


_WHOLE = section(rollout.contexts.whole)
# As configs/words has them; few enough that no world is solved by them.
_READING = {
    # The wording marks visited places, so a turn needs no earlier ones.
    "household": _Reading(section(rollout.contexts.window, history=0), 200),
    "coin": _Reading(_WHOLE, 80),
    "shop": _Reading(_WHOLE, 200),
    "wordle": _Reading(_WHOLE, 100),
    "search": _Reading(_WHOLE, 120),
}
_GROUPS, _GROUP_SIZE = 8, 8

Config = ml_collections.ConfigDict


def _ppo(config: Config) -> None:
    config.policy.critic = "shared"
    config.objective.value.weight = 0.5
    config.advantage = section(advantages.gae, gamma=0.95, lam=0.95)


def _branching(config: Config) -> None:
    # Entropies of replies differ by some hundredths of log V: beta is large for them to count.
    config.rollout = section(
        branching, num_groups=_GROUPS, group_size=_GROUP_SIZE, initial=4, alpha=0.2, beta=4.0
    )
    config.advantage = section(advantages.grpo)


METHODS: dict[str, Callable[[Config], None]] = {
    "grpo": estimator(advantages.grpo),
    "grpo_mean": estimator(advantages.grpo, normalize="mean"),
    "rloo": estimator(advantages.rloo),
    "reinforce_pp": estimator(advantages.reinforce_pp),
    "ppo": _ppo,
    "gigpo": estimator(advantages.gigpo),
    "gigpo_mean": estimator(advantages.gigpo, normalize="mean"),
    "hgpo": estimator(advantages.hgpo),
    "dapo": dapo,
    "starpo_s": starpo_s,
    "epo": epo,
    "replay": replay,
    "branching": _branching,
}


def get_config(variant: str = "coin,gigpo") -> ml_collections.ConfigDict:
    world, method = check_variant(variant, WORLDS, (*METHODS, START))
    about, reading, first = WORLDS[world], _READING[world], method == START
    config = language.config_of(
        START if first else "grpo",
        about.env,
        section(rollout.episodes, num_groups=_GROUPS, group_size=_GROUP_SIZE),
        reading.context,
        warm_updates=reading.sft if first else 0,
        updates=10_000,
    )
    config.num_seeds = len(PROTOCOL.seeds)
    config.log_every = 10
    config.evaluation.update(every=10, episodes=128, at_start=True)
    if first:
        config.evaluation.every = reading.sft
        return config
    # The budget ends a run; updates are only a bound.
    config.env_steps = about.env_steps
    METHODS[method](config)
    return config
