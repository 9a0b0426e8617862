"""FrozenLake in words: the map in glyphs."""

from envs.frozen_lake.env import GLYPHS, FrozenLake
from envs.text import View, grids

RULES = (
    "You are walking on a frozen lake. P is you, _ is ice, O is a hole, G is the goal, X is you in "
    "a hole and * is you on the goal. Ice may be slippery. Reach the goal without falling in."
)


def compact(env: FrozenLake) -> View:
    """The map by rows, a character per tile, and the moves as commands."""
    return grids.view(env, GLYPHS, env.action_names, RULES)


def faithful(env: FrozenLake) -> View:
    """The rows of the map as RAGEN draws them, with its commands.

    Source: RAGEN's FrozenLake environment (read), with * for its check mark (three bytes).
    """
    return grids.view(env, GLYPHS, [name.capitalize() for name in env.action_names], RULES)


WORDINGS = {"compact": compact, "faithful": faithful}
