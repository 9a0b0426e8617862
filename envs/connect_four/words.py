"""ConnectFour in words: the board, and the agent's own mark."""

import jax.numpy as jnp
import numpy as np

from envs.connect_four.env import MARKS, ConnectFour
from envs.text import Lexicon, View, reading, template

RULES = (
    "You are playing connect four. In turn, X first, each player drops a disc into a column, "
    "numbered from 0 at the left. Four of your discs in a row, a column or a diagonal win."
)


def _read(env: ConnectFour):
    """TextArena's rule: `[col 4]`, `[col4]` or `[4]`, the last of the first line that has one."""
    form = (b"[", reading.Maybe((b"col", reading.SPACE)), reading.NUMBER, b"]")

    def read(codes, slots):
        found = reading.match(codes, form)
        place = jnp.arange(codes.shape[0])
        begins = reading.first(found.found)
        line_ends = reading.first((codes == ord("\n")) & (place > begins))
        last = jnp.max(jnp.where(found.found & (place < line_ends), place, 0))
        column = reading.numbers_at(codes, found, last)[0]
        return jnp.where(column < env.columns, column, -1)

    return read


def compact(env: ConnectFour) -> View:
    """The rows of the board, then the agent's own mark."""
    lexicon = Lexicon()
    glyphs = lexicon.table(f".{MARKS}")[0]
    own = np.array([lexicon(mark) for mark in MARKS], np.int32)
    newline = lexicon("\n")

    def describe(state, params, agent):
        cells = glyphs + env.observe_as(state, 0, params).astype(jnp.int32)
        board = jnp.pad(cells, ((0, 0), (0, 1)), constant_values=newline).reshape(-1)
        return jnp.append(board, jnp.asarray(own)[agent])

    size = env.rows * (env.columns + 1) + 1
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, name) for name in env.action_names),
        slots=lambda state, params, agent: {},
        max_fragments=size,
        max_bytes=size,
        max_command_bytes=len(env.action_names[-1]),
        whole=True,
        read=_read(env),
        rules=f"{RULES} You see the board and your own mark. Answer with a column.",
    )


def faithful(env: ConnectFour) -> View:
    """TextArena's board, one character per square under the columns' numbers, and its commands."""
    lexicon = Lexicon()
    head = f"Board state:\n{' '.join(env.action_names)}\n{'-' * (2 * env.columns - 1)}"
    first = lexicon.table(f"\n{mark}" for mark in f".{MARKS}")[0]
    later = lexicon.table(f" {mark}" for mark in f".{MARKS}")[0]
    start = np.where(np.arange(env.columns) == 0, first, later).astype(np.int32)
    title = lexicon(head)

    def describe(state, params, agent):
        cells = start + env.observe_as(state, 0, params).astype(jnp.int32)
        return jnp.append(title, cells.reshape(-1))

    cells = env.rows * env.columns
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, f"[col {name}]") for name in env.action_names),
        slots=lambda state, params, agent: {},
        max_fragments=1 + cells,
        max_bytes=len(head) + 2 * cells,
        max_command_bytes=len(f"[col {env.action_names[-1]}]"),
        whole=True,
        read=_read(env),
        rules=f"{RULES} Answer with a column in brackets, such as [col 4].",
    )


WORDINGS = {"compact": compact, "faithful": faithful}
