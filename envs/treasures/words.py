"""Treasures in words: where the agent is."""

import jax.numpy as jnp

from envs.text import Lexicon, View, template
from envs.treasures.env import Treasures

RULES = (
    "You walk on a square with a treasure at the upper middle. What it pays may depend on where "
    "you have been, and for how long. You read your column and row, counted from the lower left. "
    "Commands: stay, left, right, down, up."
)


def compact(env: Treasures) -> View:
    """The position alone, `column 3 row 2`: what the rewards remember is not told."""
    lexicon = Lexicon()
    columns = lexicon.table(f"column {i}" for i in range(env.cells))
    rows = lexicon.table(f" row {i}" for i in range(env.cells))

    def describe(state, params):
        column, row = state.walk.position
        return jnp.stack([jnp.asarray(columns)[column], jnp.asarray(rows)[row]])

    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, name) for name in env.action_names),
        slots=lambda state, params: {},
        max_fragments=2,
        max_bytes=len("column  row ") + 2 * len(str(env.cells - 1)),
        max_command_bytes=5,
        rules=RULES,
    )


WORDINGS = {"compact": compact}
