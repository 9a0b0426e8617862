"""Wordle in words: the guesses with their colours."""

import jax.numpy as jnp

from envs.text import Lexicon, View, template
from envs.wordle.env import Wordle

RULES = (
    "Find a secret {letters}-letter word in {tries} guesses. Every guess must be {allowed}; "
    "another one is refused and lost. After a guess you are told about each of its "
    "letters: {green} it stands in this place of the word, {yellow} it is elsewhere in the word, "
    "{black} it is not in the word. Write only your next guess."
)
ALPHABET = "abcdefghijklmnopqrstuvwxyz"


def instructions(env: Wordle, green: str, yellow: str, black: str) -> str:
    """The rules with these marks, and with all words where the environment is `listed`."""
    allowed = f"one of {', '.join(env.words)}" if env.listed else "a word of the game's list"
    return RULES.format(
        letters=env.letters,
        tries=env.tries,
        allowed=allowed,
        green=green,
        yellow=yellow,
        black=black,
    )


def compact(env: Wordle) -> View:
    """Letters with one mark each, `c.r?a!n.e.`, one line per try, and `>` for the next guess.

    A coloured letter is one fragment, like one code of the observation; so is a whole command.
    """
    lexicon = Lexicon()
    coloured = lexicon.table(letter + mark for letter in ALPHABET for mark in ".?!")
    refused, newline, prompt = lexicon("-"), lexicon("\n"), lexicon(">")
    words = lexicon.table(env.words)

    def describe(state, params):
        guessed, refusals, letters, colours = env.rows(state)
        # Indices in the order of the codes: no gather.
        cells = coloured[0] + 3 * letters.astype(jnp.int32) + colours
        cells = jnp.where(guessed[:, None], cells, 0)
        refusal = jnp.where(refusals, refused, 0)[:, None]
        ends = jnp.where(guessed | refusals, newline, 0)[:, None]
        return jnp.append(jnp.concatenate([refusal, cells, ends], axis=1).reshape(-1), prompt)

    return View(
        lexicon=lexicon,
        describe=describe,
        templates=(template(lexicon, "{word}"),),
        slots=lambda state, params: {"word": words[:, None]},
        max_fragments=env.tries * (env.letters + 1) + 1,
        max_bytes=env.tries * (2 * env.letters + 1) + 1,
        max_command_bytes=env.letters,
        rules=instructions(env, "!", "?", "."),
    )


def faithful(env: Wordle) -> View:
    """LMRL-Gym's history: its heading, then each guess and its colours `<g><y><b>`, one per line.

    A refused try has an empty line of colours, as in LMRL-Gym; the refused text is not kept, so the
    line of its guess is empty too.
    """
    lexicon = Lexicon()
    heading, newline = lexicon("Wordle:\n"), lexicon("\n")
    marks = lexicon.table(["<b>", "<y>", "<g>"])
    words = lexicon.table(env.words)

    def describe(state, params):
        guessed, refusals, _, colours = env.rows(state)
        word = jnp.where(guessed, words[0] + state.guesses.astype(jnp.int32), 0)[:, None]
        cells = jnp.where(guessed[:, None], marks[0] + colours.astype(jnp.int32), 0)
        ends = jnp.where(guessed | refusals, newline, 0)[:, None]
        return jnp.append(heading, jnp.concatenate([word, ends, cells, ends], axis=1).reshape(-1))

    return View(
        lexicon=lexicon,
        describe=describe,
        templates=(template(lexicon, "{word}"),),
        slots=lambda state, params: {"word": words[:, None]},
        max_fragments=1 + env.tries * (env.letters + 3),
        max_bytes=len("Wordle:\n") + env.tries * (4 * env.letters + 2),
        max_command_bytes=env.letters,
        rules=instructions(env, "<g>", "<y>", "<b>"),
    )


WORDINGS = {"compact": compact, "faithful": faithful}
