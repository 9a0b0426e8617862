"""PigDice in words: the scores and the turn's total."""

import jax.numpy as jnp
import numpy as np

from envs.pig_dice import rules
from envs.pig_dice.env import PigDice
from envs.text import Lexicon, View, reading, template

RULES = (
    "You are playing Pig with a die. In your turn, roll as often as you like: a 2 to 6 is added to "
    "the turn's total, a 1 loses it and ends your turn; hold adds it to your score and ends your "
    "turn. The first to reach the target wins; if time is up before, the higher score does."
)
# Largest number of digits; larger numbers are written as the largest.
DIGITS = 3


def _number(lexicon: Lexicon):
    """Function of i32[...] to its digits, fragments i32[..., DIGITS]."""
    digits = lexicon.table("0123456789")
    powers = 10 ** np.arange(DIGITS - 1, -1, -1)

    def write(number):
        number = jnp.clip(number, 0, 10**DIGITS - 1)[..., None]
        shown = (number >= powers) | (powers == 1)
        return jnp.where(shown, digits[0] + number // powers % 10, 0)

    return write


def _read(env: PigDice):
    """TextArena's rule: the first of the two words in brackets."""
    return lambda codes, slots: reading.first_word(codes, env.action_names)


def compact(env: PigDice) -> View:
    """`12 30 turn 8 left 60`: own score, the other's, the turn's total, actions to the limit."""
    lexicon = Lexicon()
    write = _number(lexicon)
    before = lexicon.table(["", " ", " turn ", " left "])

    def describe(state, params, agent):
        at = state.game
        left = params.turn_limit - at.actions
        scores = rules.scores_of(at, agent)
        numbers = write(jnp.append(scores, jnp.stack([at.total, left])))
        return jnp.concatenate([jnp.asarray(before)[:, None], numbers], axis=1)

    told = (
        f"{RULES} You see your score, the other's, the total of the turn that is going on, and how "
        "many actions are left until time is up. Answer roll or hold."
    )
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, name) for name in env.action_names),
        slots=lambda state, params, agent: {},
        max_fragments=3 + 4 * DIGITS,
        max_bytes=len("  turn  left ") + 4 * DIGITS,
        max_command_bytes=4,
        read=_read(env),
        rules=told,
    )


def faithful(env: PigDice) -> View:
    """TextArena's board and commands.

    Without its list of the turn's rolls, since the state keeps their sum only. As in TextArena, the
    time left is not shown.
    """
    lexicon = Lexicon()
    write = _number(lexicon)
    scores = lexicon.table(["Current Total Scores: Player 0: '", "'; Player 1: '"])
    total, stop = lexicon("'\nYou current turn total is "), lexicon(". ")
    first = lexicon("\nThis is the first roll of your turn.")
    actions = lexicon("\nAvailable actions: '[roll]' or '[hold]'")

    def describe(state, params, agent):
        at = state.game
        before = jnp.append(scores, total)
        numbers = write(jnp.append(at.scores, at.total))
        points = jnp.concatenate([before[:, None], numbers], axis=1).reshape(-1)
        opens = jnp.where(at.total == 0, first, 0)
        return jnp.append(points, jnp.stack([stop, opens, actions]))

    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, f"[{name}]") for name in env.action_names),
        slots=lambda state, params, agent: {},
        max_fragments=6 + 3 * DIGITS,
        max_bytes=sum(map(len, lexicon.close())) - 10 + 3 * DIGITS,
        max_command_bytes=6,
        read=_read(env),
        rules=f"{RULES} Answer [roll] or [hold].",
    )


WORDINGS = {"compact": compact, "faithful": faithful}
