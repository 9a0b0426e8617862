"""A worker's attempt in words, for the one who takes it or has it tried again."""

import jax.numpy as jnp

from envs.dispatch.env import KINDS, SKILL, Dispatch
from envs.text import Lexicon, View, template


def compact(env: Dispatch) -> View:
    """`search with worker 2, attempt 1 passed`."""
    lexicon = Lexicon()
    kinds = jnp.asarray(lexicon.table(KINDS))
    workers = jnp.asarray(lexicon.table(f" with worker {w}" for w in range(len(SKILL))))
    attempts = jnp.asarray(lexicon.table(f", attempt {n}" for n in range(env.attempts + 1)))
    checks = jnp.asarray(lexicon.table([" failed", " passed"]))

    def describe(state, params):
        passed = state.passed.astype(jnp.int32)
        told = [kinds[state.kind], workers[params.worker], attempts[state.tries], checks[passed]]
        return jnp.stack(told)

    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, name) for name in env.action_names),
        slots=lambda state, params: {},
        max_fragments=4,
        max_bytes=len("search with worker 4, attempt 9 passed"),
        max_command_bytes=len("again"),
        rules="A worker has attempted a task. Take the attempt, or have it tried again, which "
        "costs. The check is not always right. Commands: take, again.",
    )


WORDINGS = {"compact": compact}
