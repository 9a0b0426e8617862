"""TicTacToe in words: the board, and the agent's own mark."""

import jax.numpy as jnp
import numpy as np

from envs.text import Lexicon, View, reading, template
from envs.tictactoe import rules
from envs.tictactoe.env import MARKS, TicTacToe

RULES = (
    "You are playing tic-tac-toe on squares 0 to 8, row by row. Three of your marks in a row, a "
    "column or a diagonal win. O moves first."
)


def _owners(state) -> jnp.ndarray:
    """i32[9]: 0 free, 1 for seat 0, 2 for seat 1."""
    first, second = rules.squares(state.game.marks)
    return first + 2 * second.astype(jnp.int32)


def read(codes: jnp.ndarray, slots) -> jnp.ndarray:
    """TextArena's rule: the first number that stands alone in brackets, `[ 4 ]`."""
    form = (b"[", reading.SPACE, reading.NUMBER, reading.SPACE, b"]")
    square = reading.first_numbers(codes, form)[0]
    return jnp.where(square < 9, square, -1)


def compact(env: TicTacToe) -> View:
    """The rows of the board, then the agent's own mark."""
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
        read=read,
        rules=f"{RULES} You see the board and your own mark. Answer with a square.",
    )


def faithful(env: TicTacToe) -> View:
    """TextArena's board and list of moves, and its commands."""
    lexicon = Lexicon()
    # Long fragments: a square with the text that follows it. Bytes are rendered piece by piece.
    head, bar, rule = "Current Board:\n\n", "|", "\n---+---+---\n"
    after = (bar, bar, rule, bar, bar, rule, bar, bar, "\n\nAvailable Moves: ")
    squares = lexicon.table(
        f"{'' if square else head} {mark} {after[square]}"
        for square in range(9)
        for mark in (square, *MARKS)
    ).reshape(9, 3)
    alone, behind = [lexicon.table(f"{comma}'[{n}]'" for n in range(9)) for comma in ("", ", ")]

    def describe(state, params, agent):
        owners = _owners(state)
        free, first, second = squares.T
        board = jnp.where(owners == 0, free, jnp.where(owners == 1, first, second))
        open_ = owners == 0
        later = jnp.cumsum(open_) - open_ > 0
        return jnp.append(board, jnp.where(open_, jnp.where(later, behind, alone), 0))

    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, f"[{name}]") for name in env.action_names),
        slots=lambda state, params, agent: {},
        max_fragments=18,
        max_bytes=16 + 27 + 6 + 26 + 19 + 9 * 5 + 8 * 2,
        max_command_bytes=3,
        read=read,
        rules=f"{RULES} Answer with a square in brackets, such as [4].",
    )


WORDINGS = {"compact": compact, "faithful": faithful}
