"""A vague request in words."""

import jax.numpy as jnp
import numpy as np

from envs.intention.env import DETAILS, KINDS, Intention
from envs.text import Lexicon, View, template


def compact(env: Intention) -> View:
    """`I want a trip. I said: date, size. You asked: place yes, colour no.`"""
    lexicon = Lexicon()
    wants = lexicon.table(f"I want a {kind}." for kind in KINDS)
    said, asked = lexicon(" I said:"), lexicon(" You asked:")
    stated, answered, ignored = (
        lexicon.table(f" {name}{answer}," for name in DETAILS) for answer in ("", " yes", " no")
    )
    number = np.arange(len(DETAILS))

    def describe(state, params):
        seen = env.observe(state, params)[len(KINDS) :].reshape(len(DETAILS), 3) > 0
        given = jnp.where(seen[:, 0], stated[0] + number, 0)
        told = jnp.where(seen[:, 1], answered[0] + number, 0)
        told = jnp.where(seen[:, 2], ignored[0] + number, told)
        heads = [wants[0] + state.kind, jnp.where(jnp.any(seen[:, 0]), said, 0)]
        later = jnp.where(jnp.any(told > 0), asked, 0)
        return jnp.concatenate([jnp.stack(heads), given, later[None], told])

    longest = max(map(len, DETAILS))
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, name) for name in env.action_names),
        slots=lambda state, params: {},
        max_fragments=3 + 2 * len(DETAILS),
        max_bytes=len("I want a garden. I said: You asked:") + len(DETAILS) * (longest + 6),
        max_command_bytes=max(map(len, env.action_names)),
        rules="Somebody wants something and has not said all that matters. Ask for what is missing "
        "before you begin, the most important first, and nothing twice. Commands: ask and a detail"
        f"{' or two' * env.pairs} ({', '.join(DETAILS)}); finish.",
    )


WORDINGS = {"compact": compact}
