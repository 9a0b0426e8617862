"""Credit where several agents act, under one protocol: WORLD,METHOD.

    python -m launchers.train --config=configs/comparison/games.py:kuhn,rae --workdir=runs/kuhn
    python -m launchers.compare --suite=games --workdir=runs/compare_games

All seats and roles act by what is learnt: self-play in games against each other. Budget of turns,
network, episodes per update, tuning and seeds are the same for all methods of a world (README.md);
what differs between two of them is what their functions here set.
"""

from collections.abc import Callable

import ml_collections

from agentrl import advantages
from agentrl.config import env_section, roles_section, section
from configs._shared.comparison import (
    IN_ARRAYS,
    Score,
    World,
    check_variant,
    critic,
    estimator,
    over_arrays,
)

VARIANTS = {"WORLD,METHOD": "one of WORLDS and one of METHODS below"}
PROTOCOL = IN_ARRAYS

EXPLOITABILITY = "exploitability"

# Returns and exploitabilities of random play and of experts: configs/games/README.md.
WORLDS = {
    # Hidden cards: 0 is uniform play, 1 an equilibrium. Exact, of the policy itself.
    "kuhn": World(
        env_section("KuhnPoker-v1", max_steps_in_episode=3),
        200_000,
        Score(EXPLOITABILITY, low=0.458, high=0.0),
    ),
    "leduc": World(
        env_section("LeducPoker-v1", max_steps_in_episode=8),
        300_000,
        Score(EXPLOITABILITY, low=2.374, high=0.0),
    ),
    # Seats that are unlike: 0 is random play against the expert, 1 is never beaten by it.
    "tictactoe": World(
        env_section("TicTacToe-v1", max_steps_in_episode=9),
        300_000,
        Score("evaluation/episode_return", low=-0.911, high=0.0),
        opponent="expert",
    ),
    # A team of equals that act at once, with rewards of their own.
    "foraging": World(env_section("Foraging-v1", size=6, max_steps_in_episode=25), 200_000),
    # A team in turns, which shares its points; 1 is the expert, who hints.
    "hanabi": World(
        env_section("Hanabi-v1", max_steps_in_episode=13),
        200_000,
        Score("evaluation/episode_return", low=0.0, high=3.1),
    ),
    # A planner and the workers that it calls.
    "research": World(env_section("Research-v1", call_price=0.005), 200_000),
}

Config = ml_collections.ConfigDict


def _ppo(config: Config) -> None:
    critic(config)
    config.advantage = section(advantages.gae, gamma=1.0, lam=0.95)


def _ppo_own(config: Config) -> None:
    """A network with a critic for each seat or role."""
    _ppo(config)
    network = config.policy
    if config.env.name == "Research-v1":
        config.policy = roles_section(planner=network, workers=network)
        config.policy.roles.workers.agents = tuple(range(1, 7))
    else:
        config.policy = roles_section(first=network, second=network)


METHODS: dict[str, Callable[[Config], None]] = {
    "grpo": estimator(advantages.grpo),
    "rae": estimator(advantages.rae_by_turn),
    "mars": estimator(advantages.mars, within="task_role"),
    "mars_one": estimator(advantages.mars, within="task"),
    "dr_mas": estimator(advantages.dr_mas),
    "matpo": estimator(advantages.matpo),
    "m_grpo": estimator(advantages.m_grpo),
    "ppo": _ppo,
    "ppo_own": _ppo_own,
}


def get_config(variant: str = "kuhn,rae") -> ml_collections.ConfigDict:
    world, method = check_variant(variant, WORLDS, METHODS)
    config = over_arrays(WORLDS[world], groups=32)
    config.rollout.mask_illegal = True
    METHODS[method](config)
    return config
