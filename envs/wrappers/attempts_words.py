"""Attempts in words: the environment's text, and below it the answers that were wrong."""

import dataclasses

import jax.numpy as jnp

from envs.text import Lexicon, View
from envs.wrappers import Attempts


def compact(env: Attempts) -> View:
    """The environment's own wording, then a line `not 7` for each wrong answer."""
    view, base = env.base.view, env.base
    if view.query is not None:
        raise ValueError(
            f"Attempts around {base.name}, whose commands have free text: answers are commands "
            "with a number"
        )
    lexicon = Lexicon()
    # The same fragments with the same indices, then ours.
    lexicon.table(view.lexicon)
    head = lexicon("\nnot ")
    names = jnp.asarray(lexicon.table(base.action_names))

    def describe(state, params):
        there = state.wrong >= 0
        said = jnp.stack([jnp.full_like(state.wrong, head), names[state.wrong]], axis=1)
        said = jnp.where(there[:, None], said, 0).reshape(-1)
        return jnp.concatenate([view.describe(state.base, params.base), said])

    longest = len("\nnot ") + max(map(len, base.action_names))
    return dataclasses.replace(
        view,
        lexicon=lexicon,
        describe=describe,
        slots=lambda state, params: view.slots(state.base, params.base),
        thought=view.inner_thought,
        max_fragments=view.max_fragments + 2 * env.attempts,
        max_bytes=view.max_bytes + env.attempts * longest,
        rules=f"{view.rules}\nA wrong answer is told, and you may answer again: "
        f"{env.attempts} answers in all.",
    )


WORDINGS = {"compact": compact}
