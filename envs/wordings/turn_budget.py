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
    templates, query = view.templates, view.query
    if env.extension:
        templates = (*templates, template(lexicon, "extend"))
        rules += f" The command extend takes a turn and grants {env.extension}."
        changes["max_command_bytes"] = max(view.max_command_bytes, len("extend"))
        if query is not None:
            action = query.action
            query = query._replace(action=lambda words: action(words) + 1)
    return dataclasses.replace(
        view,
        lexicon=lexicon,
        templates=templates,
        slots=lambda state, params: view.slots(state.base, params.base),
        query=query,
        rules=view.rules + rules,
        **changes,
    )


WORDINGS = {"compact": compact}
