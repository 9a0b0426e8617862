"""A clock in words: the environment's text above a line with the minute."""

import dataclasses

import jax.numpy as jnp

from envs.text import Lexicon, View
from envs.wrappers import Clock


def compact(env: Clock) -> View:
    """The environment's own wording, then `It is 42 past.`"""
    view = env.base.view
    lexicon = Lexicon()
    # The same fragments with the same indices, then ours.
    lexicon.table(view.lexicon)
    lines = [f"\nIt is {minute} past." for minute in range(env.minutes)]
    shown = lexicon.table(lines)
    return dataclasses.replace(
        view,
        lexicon=lexicon,
        describe=lambda state, params: jnp.append(
            view.describe(state.base, params.base), shown[0] + state.clock
        ),
        slots=lambda state, params: view.slots(state.base, params.base),
        thought=view.inner_thought,
        max_fragments=view.max_fragments + 1,
        max_bytes=view.max_bytes + max(map(len, lines)),
        rules=f"{view.rules}\nA clock shows the minute; it does not matter.",
    )


WORDINGS = {"compact": compact}
