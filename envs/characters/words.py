"""Characters and questions in words."""

import jax.numpy as jnp

from envs.characters.env import NAMES, WORDS, Characters
from envs.text import Lexicon, View, template


def compact(env: Characters) -> View:
    """`poet: moon?`, or `you: moon?` if it is not said whose the question is."""
    lexicon = Lexicon()
    # All names, so that policies for some of the characters know the words for others.
    names = lexicon.table(f"{name}: " for name in (*NAMES, "you"))
    asked = [NAMES.index(name) if env.named else len(NAMES) for name in env.names]
    words = lexicon.table(f"{word}?" for word in WORDS[: env.words])

    def describe(state, params, agent):
        return jnp.stack([names[jnp.asarray(asked)[agent]], words[state.question]])

    names = jnp.asarray(names)
    words = jnp.asarray(words)
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, name) for name in env.action_names),
        slots=lambda state, params, agent: {},
        max_fragments=2,
        max_bytes=max(map(len, NAMES)) + 3 + max(map(len, WORDS)),
        max_command_bytes=max(map(len, env.action_names)),
        rules="Say what comes to your mind: every character has answers of its own. Commands: "
        f"{', '.join(env.action_names)}.",
    )


WORDINGS = {"compact": compact}
