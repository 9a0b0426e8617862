"""Teams and edits in words."""

import jax.numpy as jnp

from envs.team_graph.env import ROLES, TeamGraph
from envs.text import Lexicon, View, template


def compact(env: TeamGraph) -> View:
    """`task 3: coder 1, critic 2,`."""
    lexicon = Lexicon()
    tasks = lexicon.table(f"task {f + 1}:" for f in range(env.families))
    roles = lexicon.table(f" {name}" for name in ROLES[: env.roles])
    counts = lexicon.table(f" {n}," for n in range(env.size + 1))

    def describe(state, params):
        told = jnp.stack([jnp.asarray(roles), jnp.asarray(counts)[state.members]], axis=1)
        told = jnp.where((state.members > 0)[:, None], told, 0)
        return jnp.append(jnp.asarray(tasks)[state.family], told.reshape(-1))

    longest = max(len(name) for name in ROLES[: env.roles]) + 1 + 4
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, name) for name in env.action_names),
        slots=lambda state, params: {},
        max_fragments=1 + 2 * env.roles,
        max_bytes=len(f"task {env.families}:") + env.roles * longest,
        max_command_bytes=max(map(len, env.action_names)),
        rules="Build a team for the task: every kind of task needs some roles, always the same. "
        f"Members cost. Then let it work. Commands: {', '.join(env.action_names)}.",
    )


WORDINGS = {"compact": compact}
