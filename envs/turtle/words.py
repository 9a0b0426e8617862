"""A puzzle in words."""

import jax.numpy as jnp
import numpy as np

from envs.text import Lexicon, View, template
from envs.turtle.env import OPTIONS, UNASKED, Turtle

ANSWERS = ("no", "yes", "irrelevant")


def compact(env: Turtle) -> View:
    """`A strange story. twin: no, attic: irrelevant, best 50%`"""
    lexicon = Lexicon()
    names = [name for group in env.options for name in group]
    story = lexicon("A strange story.")
    told = lexicon.table(f" {name}: {answer}," for name in names for answer in ANSWERS)
    # Scores are n / facts.
    percent = sorted({round(100 * n / m) for m in range(1, env.aspects + 1) for n in range(m + 1)})
    best = lexicon.table(f" best {value}%" for value in percent)
    number = np.arange(len(names)) * len(ANSWERS)

    def describe(state, params):
        answers = state.answers.reshape(-1)
        said = jnp.where(answers == UNASKED, 0, told[0] + number + answers - 1)
        place = jnp.argmin(jnp.abs(np.float32(percent) - 100 * state.best))
        score = jnp.where(state.best > 0, best[0] + place, 0)
        return jnp.concatenate([jnp.full(1, story), said, score[None]])

    values = {str(g): lexicon.table([*group, "nothing"]) for g, group in enumerate(env.options)}
    slots = {name: table[:, None].astype(np.int32) for name, table in values.items()}
    asked = {"option": lexicon.table(names)[:, None].astype(np.int32)}
    form = "answer" + "".join(f" {{{g}}}" for g in values)
    longest = max(map(len, names))
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, form) for form in ("ask {option}", form, "finish")),
        slots=lambda state, params: asked | slots,
        max_fragments=2 + env.aspects * OPTIONS,
        max_bytes=len("A strange story. best 100%")
        + env.aspects * OPTIONS * (longest + len(" : irrelevant,")),
        max_command_bytes=len("answer") + env.aspects * (1 + max(longest, len("nothing"))),
        rules="Some facts explain the story, at most one of each line below. Ask about them, then "
        "answer with one word per line, or nothing. "
        + " ".join(f"({', '.join(group)})" for group in env.options)
        + " Commands: ask and a word; answer and the words, in this order; finish.",
    )


WORDINGS = {"compact": compact}
