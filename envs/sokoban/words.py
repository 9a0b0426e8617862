"""Sokoban in words: the room in glyphs."""

from envs.sokoban.env import ACTIONS, GLYPHS, Sokoban
from envs.text import View, grids

RULES = (
    "You are pushing boxes. P is you, S is you on a target, X is a box, O is a target, * is a box "
    "on a target, # is wall and _ is floor. Push every box onto a target; you cannot pull."
)


def compact(env: Sokoban) -> View:
    """The rows of the room without the surrounding wall."""
    rules = f"{RULES} The wall around the room is not drawn."
    return grids.view(env, GLYPHS, env.action_names, rules, margin=1)


def faithful(env: Sokoban) -> View:
    """The rows of the room as RAGEN draws them, with its commands or gym-sokoban's.

    Source: RAGEN's Sokoban environment (read), with * for its root sign (three bytes); gym-sokoban
    0.0.6 (read) for the names of the nine actions.
    """
    commands = [name.capitalize() for name in env.action_names]
    if env.actions == "gym":
        commands = ["no operation", *ACTIONS["gym"][1:]]
    return grids.view(env, GLYPHS, commands, RULES)


WORDINGS = {"compact": compact, "faithful": faithful}
