"""FrozenLake in words: the map in glyphs."""

import jax.numpy as jnp

from envs.frozen_lake import GLYPHS, FrozenLake
from envs.text import Lexicon, View, template

RULES = (
    "You are walking on a frozen lake. P is you, _ is ice, O is a hole, G is the goal, X is you in "
    "a hole and * is you on the goal. Ice may be slippery. Reach the goal without falling in."
)


def compact(env: FrozenLake) -> View:
    """The rows of the map, a fragment a cell, with a newline between rows.

    Source of the glyphs: RAGEN's `FROZEN_LAKE` map lookup (read), with * for its check mark (three
    bytes); commands are its action names.
    """
    lexicon = Lexicon()
    glyphs = lexicon.table(GLYPHS)
    newline = lexicon("\n")

    def describe(state, params):
        cells = jnp.asarray(glyphs)[env.observe(state, params).astype(jnp.int32)]
        ends = jnp.full((env.size, 1), newline)
        return jnp.concatenate([cells, ends], axis=1).reshape(-1)[:-1]

    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, name) for name in env.action_names),
        slots=lambda state, params: {},
        max_fragments=env.size * (env.size + 1) - 1,
        max_bytes=env.size * (env.size + 1) - 1,
        max_command_bytes=5,
        rules=RULES,
    )


def faithful(env: FrozenLake) -> View:
    """RAGEN's own view is the compact one."""
    return compact(env)


WORDINGS = {"compact": compact, "faithful": faithful}
