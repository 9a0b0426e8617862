"""Maze in words: the map in glyphs, or the visible walls and positions."""

import jax.numpy as jnp
import numpy as np

from envs.maze.env import GLYPHS, Maze
from envs.text import Lexicon, View, grids, template

RULES = "You are in a maze. Walk to the goal."
GRID_RULES = f"{RULES} P is you, G is the goal, # is wall and . is free."
PLACES = {"walls": "", "goal": " Places are given by row, counted from the top, and column."}
PLACES["position"] = PLACES["goal"]
# Sides in the order of the observation, and in LMRL-Gym's order.
SIDES = ("above you", "below you", "to your left", "to your right")
LISTED = np.array([3, 2, 0, 1])


def compact(env: Maze) -> View:
    """`at 5 5, goal 8 6, walls up down`, the part that `sight` reveals, or the map.

    The map leaves out the surrounding wall. As in the arrays, the end is not shown.
    """
    if env.sight == "grid":
        rules = f"{GRID_RULES} The wall around the maze is not drawn."
        return grids.view(env, GLYPHS, env.action_names, rules, margin=1)
    lexicon = Lexicon()
    first_number = lexicon.table(f" {i}" for i in range(max(env.shape)))[0]
    sides, none = lexicon.table(f" {name}" for name in env.action_names), lexicon(" none")
    at, goal, walls = {
        "position": ("at", ", goal", ", walls"),
        "goal": ("", "goal", ", walls"),
        "walls": ("", "", "walls"),
    }[env.sight]
    at_id, goal_id, walls_id = lexicon.table((at, goal, walls))

    def describe(state, params):
        seen = env.observe(state, params).astype(jnp.int32)
        around, places = seen[:4] > 0, first_number + seen[4:]
        free = jnp.where(jnp.any(around), 0, none)
        # Slices of positions that `sight` does not reveal are empty.
        said = [at_id, places[2:], goal_id, places[:2], walls_id, jnp.where(around, sides, 0), free]
        return jnp.concatenate([jnp.atleast_1d(part) for part in said])

    number_of_places = {"position": 4, "goal": 2, "walls": 0}[env.sight]
    longest = len(at + goal + walls + " up down left right")
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, name) for name in env.action_names),
        slots=lambda state, params: {},
        max_fragments=sum(map(bool, (at, goal, walls))) + number_of_places + 4,
        max_bytes=longest + number_of_places * len(f" {max(env.shape) - 1}"),
        max_command_bytes=5,
        rules=f"{RULES}{PLACES[env.sight]} Commands: {', '.join(env.action_names)}.",
    )


def faithful(env: Maze) -> View:
    """LMRL-Gym's words for its three observations; `Success` or `Failure` at the end.

    Source: LMRL-Gym's `maze/env/env.py` (read). Numbers have spaces between their digits. `Failure`
    is the text of a truncated episode, in LMRL-Gym the answer to one more step; a value of that
    text cannot serve as a bootstrap. The map of sight="grid" is ours.
    """
    commands = [f"move {name}" for name in env.action_names]
    if env.sight == "grid":
        return grids.view(env, GLYPHS, commands, GRID_RULES)
    lexicon = Lexicon()
    first_number = lexicon.table(" ".join(str(i)) for i in range(max(env.shape)))[0]
    goal, here = "The goal is at position ", "Your current position is at position "
    goal_id, here_id = lexicon.table((goal, here))
    comma, stop, end = lexicon.table((", ", ". ", ".\n"))
    several, single = lexicon.table(("There are walls ", "There is a wall "))
    none = lexicon("There are no walls near you.\n")
    sides = lexicon.table(SIDES)[LISTED]
    success, failure = lexicon.table(("Success\n", "Failure\n"))

    def describe(state, params):
        seen = env.observe(state, params).astype(jnp.int32)
        around, places = (seen[:4] > 0)[LISTED], first_number + seen[4:]
        count = jnp.sum(around)
        commas = jnp.where(around & (jnp.cumsum(around) > 1), comma, 0)
        said = [
            jnp.where(count > 1, several, jnp.where(count == 1, single, none)),
            jnp.stack([commas, jnp.where(around, sides, 0)], axis=1).reshape(-1),
            jnp.where(count > 0, end, 0),
        ]
        if env.sight == "position":
            said = [here_id, places[2], comma, places[3], stop, *said]
        if env.sight != "walls":
            said = [goal_id, places[0], comma, places[1], stop, *said]
        said = jnp.concatenate([jnp.atleast_1d(part) for part in said])
        won, late = env.is_success(state, params), env.is_truncated(state, params)
        outcome = jnp.where(won, success, jnp.where(late, failure, 0))
        return jnp.append(jnp.where(won | late, 0, said), outcome)

    two_places = 2 * len(" ".join(str(max(env.shape) - 1))) + len(", . ")
    goal_bytes, here_bytes = len(goal) + two_places, len(here) + two_places
    places_bytes = {"walls": 0, "goal": goal_bytes, "position": goal_bytes + here_bytes}[env.sight]
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, command) for command in commands),
        slots=lambda state, params: {},
        max_fragments={"walls": 9, "goal": 14, "position": 19}[env.sight],
        max_bytes=places_bytes + len("There are walls , , , .\n" + "".join(SIDES)),
        max_command_bytes=10,
        rules=f"{RULES}{PLACES[env.sight]} Commands: {', '.join(commands)}.",
    )


WORDINGS = {"compact": compact, "faithful": faithful}
