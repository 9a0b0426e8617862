"""TicTacToe in words: the board, and whose mark is one's own."""

import jax.numpy as jnp
import numpy as np

from envs.rules import tictactoe as rules
from envs.text import Lexicon, View, template
from envs.tictactoe import MARKS, TicTacToe

RULES = (
    "You are playing tic-tac-toe on squares 0 to 8, row by row. Three of your marks in a row, a "
    "column or a diagonal win. O moves first."
)


def _owners(state) -> jnp.ndarray:
    """i32[9]: 0 free, 1 for seat 0, 2 for seat 1."""
    first, second = rules.squares(state.marks)
    return first + 2 * second.astype(jnp.int32)


def compact(env: TicTacToe) -> View:
    """The rows of the board, then one's own mark."""
    lexicon = Lexicon()
    glyphs = lexicon.table(f".{MARKS}")[0]
    own = np.array([lexicon(mark) for mark in MARKS], np.int32)
    newline = lexicon("\n")

    def describe(state, params, agent):
        cells = (glyphs + _owners(state)).reshape(3, 3)
        board = jnp.pad(cells, ((0, 0), (0, 1)), constant_values=newline).reshape(-1)
        return jnp.append(board, jnp.asarray(own)[agent])

    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, name) for name in env.action_names),
        slots=lambda state, params, agent: {},
        max_fragments=13,
        max_bytes=13,
        max_command_bytes=1,
        whole=True,
        rules=f"{RULES} You see the board and your own mark. Answer with a square.",
    )


def faithful(env: TicTacToe) -> View:
    """TextArena's board and list of moves, and its commands."""
    lexicon = Lexicon()
    free = np.array([lexicon(f" {square} ") for square in range(9)], np.int32)
    taken = np.array([0, *(lexicon(f" {mark} ") for mark in MARKS)], np.int32)
    head, bar, rule = lexicon("Current Board:\n\n"), lexicon("|"), lexicon("\n---+---+---\n")
    moves, comma = lexicon("\n\nAvailable Moves: "), lexicon(", ")
    quoted = np.array([lexicon(f"'[{square}]'") for square in range(9)], np.int32)
    after = np.array([bar, bar, rule, bar, bar, rule, bar, bar, moves], np.int32)

    def describe(state, params, agent):
        owners = _owners(state)
        cells = jnp.where(owners == 0, free, jnp.asarray(taken)[owners])
        board = jnp.stack([cells, jnp.asarray(after)], axis=1).reshape(-1)
        open_ = owners == 0
        before = jnp.cumsum(open_) - open_ > 0
        listed = jnp.stack([jnp.where(before, comma, 0), jnp.asarray(quoted)], axis=1)
        listed = jnp.where(open_[:, None], listed, 0).reshape(-1)
        return jnp.concatenate([jnp.array([head], jnp.int32), board, listed])

    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, f"[{name}]") for name in env.action_names),
        slots=lambda state, params, agent: {},
        max_fragments=1 + 18 + 17,
        max_bytes=16 + 27 + 6 + 26 + 19 + 9 * 5 + 8 * 2,
        max_command_bytes=3,
        rules=f"{RULES} Answer with a square in brackets, such as [4].",
    )


WORDINGS = {"compact": compact, "faithful": faithful}
