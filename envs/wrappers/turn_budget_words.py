"""A budget of turns in words: the environment's text below a line with the turns that are left."""

import dataclasses

import jax.numpy as jnp

from envs.text import Lexicon, View, template
from envs.wrappers import TurnBudget

# Higher numbers are not told apart.
COUNTED = 100


def compact(env: TurnBudget) -> View:
    """The environment's own wording; with a reminder, `5 turns left` above it."""
    view = env.base.view
    lexicon = Lexicon()
    # The same fragments with the same indices, then ours.
    lexicon.table(view.lexicon)
    changes = {"describe": lambda state, params: view.describe(state.base, params.base)}
    rules = "\nThe number of turns is limited"
    if env.remind:
        lines = [f"{n} turns left\n" for n in range(COUNTED)]
        left = lexicon.table(lines)

        def describe(state, params):
            line = left[0] + jnp.minimum(env.remaining(state, params), COUNTED - 1)
            return jnp.append(line, view.describe(state.base, params.base))

        rules += ": the first line says how many turns are left"
        changes = {
            "describe": describe,
            "max_fragments": view.max_fragments + 1,
            "max_bytes": view.max_bytes + len(lines[-1]),
        }
    rules += "."
    said = view
    if env.extension:
        said = with_command(view, lexicon, "extend")
        rules += f" The command extend takes a turn and grants {env.extension}."
    return dataclasses.replace(
        said,
        lexicon=lexicon,
        slots=lambda state, params: view.slots(state.base, params.base),
        thought=view.inner_thought,
        rules=view.rules + rules,
        **changes,
    )


def with_command(view: View, lexicon: Lexicon, name: str) -> View:
    """The view with one more command, whose action stands behind those that have a template.

    lexicon: to which its fragment is added.
    """
    query = view.query
    if query is not None:
        # Actions with free text have numbers behind all others.
        action = query.action
        query = query._replace(action=lambda words: action(words) + 1)
    return dataclasses.replace(
        view,
        templates=(*view.templates, template(lexicon, name)),
        max_command_bytes=max(view.max_command_bytes, len(name)),
        query=query,
    )


WORDINGS = {"compact": compact}
