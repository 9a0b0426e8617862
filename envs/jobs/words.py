"""Jobs and methods in words."""

import jax.numpy as jnp

from envs.jobs.env import Jobs
from envs.text import Lexicon, View, template


def compact(env: Jobs) -> View:
    """`job 1`: the kind of the job at hand, counted from 1; commands are the methods."""
    lexicon = Lexicon()
    kinds = lexicon.table(f"job {k + 1}" for k in range(len(env.chances)))
    return View(
        lexicon=lexicon,
        describe=lambda state, params: jnp.stack([kinds[0] + state.kind]),
        templates=tuple(template(lexicon, name) for name in env.action_names),
        slots=lambda state, params: {},
        max_fragments=1,
        max_bytes=len(f"job {len(env.chances)}"),
        max_command_bytes=max(map(len, env.action_names)),
        rules="You are given jobs of several kinds, one after the other, and choose a method for "
        f"each, before your time is over. Commands: {', '.join(env.action_names)}.",
    )


WORDINGS = {"compact": compact}
