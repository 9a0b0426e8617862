"""All methods of credit over arrays, under one protocol: WORLD,METHOD.

    python -m launchers.train --config=configs/comparison/arrays.py:coin,gigpo --workdir=runs/coin
    python -m launchers.compare --suite=arrays --workdir=runs/compare

Tasks, budget of turns, network, episodes per update, tuning and seeds are the same for all methods
of a world (README.md); what differs between two of them is what their functions here set.
"""

from collections.abc import Callable

import ml_collections

from agentrl import advantages, losses, rewards
from agentrl.config import env_section, section, term
from agentrl.methods.archer import archer
from agentrl.methods.branching import branching
from agentrl.methods.call_matching import call_matching
from agentrl.methods.edit_rewards import edit_rewards
from agentrl.methods.progress import progress
from agentrl.methods.reward_scaling import reward_scaling
from agentrl.methods.self_imitation import self_imitation
from agentrl.methods.similar_anchors import similar_anchors
from agentrl.methods.stare import stare_weights
from agentrl.methods.turn_entropy import turn_entropy
from configs._shared.comparison import (
    IN_ARRAYS,
    RETURN,
    Score,
    World,
    check_variant,
    critic,
    dapo,
    epo,
    estimator,
    over_arrays,
    replay,
    starpo_s,
)

VARIANTS = {"WORLD,METHOD": "one of WORLDS and one of METHODS below"}
PROTOCOL = IN_ARRAYS


WORLDS = {
    # Noisy observations of equal rooms, one reward at the end.
    "coin": World(
        env_section("Coin-v1", quest_length=5, distractors=2, max_steps_in_episode=20), 200_000
    ),
    # Observations are states, which come again; rewards on the way.
    "sokoban": World(env_section("Sokoban-v1"), 200_000),
    # One reward, hardly ever found at first: two rooms of five cells.
    "wide_2": World(env_section("KeyDoor-v1", rooms=2), 200_000),
    # One reward, later and later: two, four and eight rooms of two cells, 25,000 turns for each.
    "doors_2": World(env_section("KeyDoor-v1", rooms=2, width=2), 50_000),
    "doors_4": World(env_section("KeyDoor-v1", rooms=4, width=2), 100_000),
    "doors_8": World(env_section("KeyDoor-v1", rooms=8, width=2), 200_000),
    # Chance in every step.
    "lake": World(env_section("FrozenLake-v1"), 100_000),
    # A cost for every step, and a part of the view: the walls around, and where the goal is.
    "maze": World(
        env_section("Maze-v1", size=(7, 7), sight="goal", max_steps_in_episode=30), 50_000
    ),
    # What was called before stays in the observation, so that no observation comes again.
    "tool_calls": World(env_section("ToolCalls-v1"), 100_000),
    "team": World(env_section("TeamGraph-v1"), 100_000),
    # Turns of unequal time: the slow method pays more per job, and per time for one kind of two.
    # From random play's good jobs a shift to those of the best choice of each kind; both exact.
    "jobs": World(
        env_section("Jobs-v1", durations=(1.0, 2.0), chances=((0.2, 0.9), (0.6, 0.7))),
        100_000,
        score=Score("evaluation/episode_return", 12.6667, 15.8667),
    ),
    # A purchase is paid by how much of the request it meets, and hardly one meets all of it.
    "shop": World(env_section("Shop-v1"), 50_000, score=RETURN),
}
# Which rank the methods nearly as all do (README.md), in minutes.
REDUCED = ("wide_2", "lake", "maze", "tool_calls")

Config = ml_collections.ConfigDict


def _ppo(config: Config) -> None:
    critic(config)
    config.advantage = section(advantages.gae, gamma=0.95, lam=0.95)


def _length_adaptive(config: Config) -> None:
    critic(config)
    # Its default is for replies of thousands of tokens; here lambda is 1 - 1 / turns.
    config.advantage = section(advantages.length_adaptive_gae, gamma=0.95, alpha=1.0)


def _ppo_max(config: Config) -> None:
    _ppo(config)
    config.components.reward_scaling = section(reward_scaling)
    config.reward.scaled_reward = {}
    config.objective.value = term(losses.clipped_value_loss, weight=0.5, clip=0.2)


def _archer(config: Config) -> None:
    # A tenth of configs/credit/archer.py: with 200 critic steps it takes a hundred times as long as
    # the other methods.
    config.components.archer = section(archer, steps=20)
    config.advantage = section(advantages.twin_critics)


def _spa(config: Config) -> None:
    _ppo(config)
    config.components.progress = section(progress)
    config.reward.progress = section(rewards.progress_reward, beta=0.0)


def _loop(config: Config) -> None:
    config.advantage = section(advantages.rloo)
    config.filters.relevant = section(advantages.relevant)
    config.learner.normalize_advantage = "none"


def _gigpo_state(config: Config) -> None:
    config.advantage = section(advantages.gigpo)
    config.rollout.anchor = "state"


def _match_tir(config: Config) -> None:
    config.components.call_matching = section(call_matching)
    config.reward.turn_bonus = {"coefficient": 1.0}
    config.advantage = section(advantages.dual_level, turn_weight=0.5)


def _hrpo(config: Config) -> None:
    config.components.edit_rewards = section(edit_rewards)
    config.advantage = section(advantages.hrpo, edit_weight=5.0)


def _stare(config: Config) -> None:
    config.advantage = section(advantages.grpo)
    config.components.stare_weights = section(stare_weights, target=0.8, loss=0.9, step=0.01)
    config.reweighting.stare = section(advantages.stare)


def _aepo(config: Config) -> None:
    config.advantage = section(advantages.grpo)
    config.objective.policy = term(losses.aepo)


def _dart(config: Config) -> None:
    config.advantage = section(advantages.grpo)
    config.components.turn_entropy = section(turn_entropy)
    config.reweighting.uncertain_turns = section(advantages.uncertain_turns)


def _rapo(config: Config) -> None:
    config.advantage = section(advantages.grpo)
    config.reweighting.live_group_scale = section(advantages.live_group_scale)
    config.learner.normalize_advantage = "none"


def _spear(config: Config) -> None:
    config.advantage = section(advantages.grpo)
    config.components.self_imitation = section(self_imitation, replay_until=50, calls_until=50)
    config.objective.self_imitation = term(losses.self_imitation, source="self_imitation")


def _duration_aware(config: Config) -> None:
    config.advantage = section(advantages.grpo)
    config.reweighting.duration_aware = section(advantages.duration_aware)


def _branching(config: Config) -> None:
    config.rollout = section(branching, num_groups=16, group_size=8, initial=4)
    config.advantage = section(advantages.grpo)


def _similar_anchors(config: Config) -> None:
    config.components.similar_anchors = section(similar_anchors)
    config.advantage = section(advantages.gigpo)


METHODS: dict[str, Callable[[Config], None]] = {
    "grpo": estimator(advantages.grpo),
    "grpo_mean": estimator(advantages.grpo, normalize="mean"),
    "rloo": estimator(advantages.rloo),
    "loop": _loop,
    "reinforce_pp": estimator(advantages.reinforce_pp),
    "reinforce_pp_baseline": estimator(advantages.reinforce_pp_baseline),
    "ppo": _ppo,
    "ppo_max": _ppo_max,
    "length_adaptive": _length_adaptive,
    "archer": _archer,
    "gigpo": estimator(advantages.gigpo),
    "gigpo_mean": estimator(advantages.gigpo, normalize="mean"),
    "gigpo_state": _gigpo_state,
    "similar_anchors": _similar_anchors,
    "hgpo": estimator(advantages.hgpo),
    "mapo": estimator(advantages.mapo),
    "mars": estimator(advantages.mars),
    "user_rl": estimator(advantages.user_rl, credit="equalized", score="discounted"),
    "pairwise_sign": estimator(advantages.pairwise_sign),
    "igpo": estimator(advantages.igpo),
    "match_tir": _match_tir,
    "hrpo": _hrpo,
    "spa": _spa,
    "dapo": dapo,
    "starpo_s": starpo_s,
    "epo": epo,
    "stare": _stare,
    "aepo": _aepo,
    "dart": _dart,
    "rapo": _rapo,
    "spear": _spear,
    "replay": replay,
    "branching": _branching,
    "duration_aware": _duration_aware,
}


def get_config(variant: str = "coin,gigpo") -> ml_collections.ConfigDict:
    world, method = check_variant(variant, WORLDS, METHODS)
    config = over_arrays(WORLDS[world], groups=16)
    METHODS[method](config)
    return config
