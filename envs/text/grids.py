"""Maps in glyphs, shared by several environments."""

from collections.abc import Sequence

import jax.numpy as jnp

from envs.environment import Environment
from envs.text import Lexicon, View, template


def view(
    env: Environment, glyphs: str, commands: Sequence[str], rules: str, *, margin: int = 0
) -> View:
    """The rows of a map, one fragment per cell, with a newline between rows.

    env: its observation is a map of codes. glyphs: one per code, all different. commands: one per
    action. margin: number of cells left out on all sides, for walls that are always present.
    """
    lexicon = Lexicon()
    first = lexicon.table(glyphs)[0]
    newline = lexicon("\n")
    rows, cols = (side - 2 * margin for side in env.observation_shape)

    def describe(state, params):
        codes = env.observe(state, params)[margin : margin + rows, margin : margin + cols]
        # Glyphs have indices in the order of the codes: no gather.
        cells = first + codes.astype(jnp.int32)
        return jnp.pad(cells, ((0, 0), (0, 1)), constant_values=newline).reshape(-1)[:-1]

    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, command) for command in commands),
        slots=lambda state, params: {},
        max_fragments=rows * (cols + 1) - 1,
        max_bytes=rows * (cols + 1) - 1,
        max_command_bytes=max(map(len, commands)),
        whole=True,
        rules=f"{rules} Commands: {', '.join(commands)}.",
    )
