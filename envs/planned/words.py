"""Planner and executor in words: the environment's text, and a line with the subgoal."""

import dataclasses

import jax.numpy as jnp

from envs.planned.env import EXECUTOR, Planned
from envs.text import Lexicon, View, template

RULES = (
    "Two play this together: a planner sets a subgoal, an executor acts until it is reached, or "
    "for some turns. If the first line names a subgoal, you are the executor: act towards it. If "
    "not, you are the planner: set one. Planner's commands: "
)


def compact(env: Planned) -> View:
    """The environment's compact words; the executor reads `subgoal: red key` above them.

    Commands are the environment's and `plan red key`.
    """
    view, names = env.base.view, env.base.subgoal_names
    lexicon = Lexicon()
    # The same fragments with the same indices, then ours.
    lexicon.table(view.lexicon)
    heads = [f"subgoal: {name}\n" for name in names]
    plans = [f"plan {name}" for name in names]
    goals = lexicon.table(heads)

    def describe(state, params, agent):
        acts = (agent == EXECUTOR) & (state.subgoal >= 0)
        told = jnp.where(acts, jnp.asarray(goals)[state.subgoal], 0)
        return jnp.append(told, view.describe(state.base, params.base))

    return dataclasses.replace(
        view,
        lexicon=lexicon,
        describe=describe,
        templates=(*view.templates, *(template(lexicon, plan) for plan in plans)),
        slots=lambda state, params, agent: view.slots(state.base, params.base),
        thought=None,
        max_fragments=view.max_fragments + 1,
        max_bytes=view.max_bytes + max(map(len, heads)),
        max_command_bytes=max(view.max_command_bytes, *map(len, plans)),
        rules=f"{view.rules}\n{RULES}{', '.join(plans)}.",
    )


WORDINGS = {"compact": compact}
