"""Requests and calls in words."""

import jax.numpy as jnp

from envs.text import Lexicon, View, template
from envs.tool_calls.env import ToolCalls


def compact(env: ToolCalls) -> View:
    """`wanted weather oslo, taxi rome made taxi rome`."""
    lexicon = Lexicon()
    names = env.action_names[: env.size]
    wanted, first, later = (
        lexicon.table(f"{before}{name}" for name in names) for before in ("wanted ", " made ", ", ")
    )

    def describe(state, params):
        asked = jnp.concatenate([wanted[0] + state.wanted[:1], later[0] + state.wanted[1:]])
        # Without gaps: an episode has no turn after the answer.
        made = jnp.concatenate([first[0] + state.called[:1], later[0] + state.called[1:]])
        return jnp.concatenate([asked, jnp.where(state.called >= 0, made, 0)])

    longest = max(map(len, names))
    lexicon("||")  # an expert writes several commands with it, see `Environment.foresees`
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, name) for name in env.action_names),
        slots=lambda state, params: {},
        max_fragments=env.needed + env.limit,
        max_bytes=len("wanted ") + len(" made ") + (env.needed + env.limit) * (longest + 2),
        max_command_bytes=max(map(len, env.action_names)),
        rules="You are told which calls are wanted and which you have made. Make each once, in any "
        "order, then answer. A command is a tool and a place, or answer.",
    )


WORDINGS = {"compact": compact}
