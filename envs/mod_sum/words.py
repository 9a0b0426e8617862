"""A task's axes and the teams for it, in words."""

import jax.numpy as jnp

from envs.mod_sum import rules
from envs.mod_sum.env import AXES, ModSum
from envs.text import Lexicon, View, template

RULES = (
    "You build a team for a task of dependent steps. You are told the length of its longest chain "
    "(depth), its number of steps (horizon), the most inputs of a step (breadth), its number of "
    "separate parts (parallel) and of doubtful numbers (robustness). More workers tire less and "
    "lose more when they hand over. Commands: a number of workers and their kind, solo, vote, "
    "reflect or verify: "
)


def compact(env: ModSum) -> View:
    """`depth 3, horizon 5, breadth 2, parallel 2, robustness 0`; with `low`, `, one worker`."""
    lexicon = Lexicon()
    most = env.nodes[1]
    tables = {
        name: lexicon.table(f"{', ' if i else ''}{name} {n}" for n in range(most + 1))
        for i, name in enumerate(AXES)
    }
    low = lexicon(", one worker")

    def describe(state, params):
        axes = rules.axes(state.graph)
        said = [tables[name][0] + axes[name] for name in AXES]
        return jnp.stack([*said, jnp.where(params.low, low, 0)])

    digits = len(str(most))
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, name) for name in env.action_names),
        slots=lambda state, params: {},
        max_fragments=len(AXES) + 1,
        max_bytes=sum(len(name) + 3 + digits for name in AXES) + len(", one worker"),
        max_command_bytes=max(map(len, env.action_names)),
        rules=f"{RULES}{', '.join(env.action_names)}.",
    )


WORDINGS = {"compact": compact}
