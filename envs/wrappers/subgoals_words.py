"""Subgoals in words: the current one above the environment's text, and commands in tags."""

import dataclasses

import jax.numpy as jnp

from envs.text import Lexicon, View
from envs.text.view import Template
from envs.wrappers import Subgoals

KEEP, SWITCH = "<switch>keep</switch>", "<switch>switch</switch>"


def compact(env: Subgoals) -> View:
    """`subgoal: red key` above the environment's own words, once there is one.

    A command is `<switch>keep</switch>` or `<switch>switch</switch><subgoal>red key</subgoal>` and
    a command of the environment's.
    """
    view, names = env.base.view, env.base.subgoal_names
    if view.query is not None:
        raise ValueError(f"Subgoals base={env.base.name}: expected commands without free text")
    lexicon = Lexicon()
    # The same fragments with the same indices, then ours.
    lexicon.table(view.lexicon)
    heads = [f"subgoal: {name}\n" for name in names]
    told = lexicon.table(heads)
    goals = [f"<subgoal>{name}</subgoal>" for name in names]
    choices = [(lexicon(KEEP),), *((lexicon(SWITCH), lexicon(goal)) for goal in goals)]

    def describe(state, params):
        head = jnp.where(state.subgoal < 0, 0, jnp.asarray(told)[state.subgoal])
        return jnp.append(head, view.describe(state.base, params.base))

    longest = max(len(KEEP), len(SWITCH) + max(map(len, goals)))
    return dataclasses.replace(
        view,
        lexicon=lexicon,
        describe=describe,
        templates=tuple(Template((*c, *form.parts)) for c in choices for form in view.templates),
        slots=lambda state, params: view.slots(state.base, params.base),
        max_fragments=view.max_fragments + 1,
        max_bytes=view.max_bytes + max(map(len, heads)),
        max_command_bytes=view.max_command_bytes + longest,
        whole=False,
        read=None,
        thought=None,
        rules=(
            f"{view.rules}\nBefore each command say whether you keep your subgoal, which the first "
            f"line names, {KEEP}, or set one, {SWITCH} and one of {', '.join(goals)}."
        ),
    )


WORDINGS = {"compact": compact}
