"""Planner, executor and switcher in words: the switcher is asked whether to keep the subgoal."""

import dataclasses

import jax.numpy as jnp

from envs.planned import words as planned
from envs.switched.env import SWITCHER, Switched
from envs.text import Lexicon, View, template

RULES = (
    "A third player decides when there is a new subgoal. If the first line asks whether to keep "
    "one, that is you. Commands: keep, switch."
)


def compact(env: Switched) -> View:
    """As for planner and executor; the switcher reads `keep red key?` above it."""
    view, names = planned.compact(env), env.base.subgoal_names
    lexicon = Lexicon()
    # The same fragments with the same indices, then ours.
    lexicon.table(view.lexicon)
    lines = [f"keep {name}?\n" for name in names]
    asked = jnp.asarray(lexicon.table(lines))

    def describe(state, params, agent):
        told = view.describe(state, params, agent)
        question = asked[jnp.maximum(state.subgoal, 0)]
        return told.at[0].set(jnp.where(agent == SWITCHER, question, told[0]))

    return dataclasses.replace(
        view,
        lexicon=lexicon,
        describe=describe,
        templates=(*view.templates, template(lexicon, "keep"), template(lexicon, "switch")),
        max_bytes=view.max_bytes + max(map(len, lines)),
        max_command_bytes=max(view.max_command_bytes, len("switch")),
        rules=f"{view.rules}\n{RULES}",
    )


WORDINGS = {"compact": compact}
