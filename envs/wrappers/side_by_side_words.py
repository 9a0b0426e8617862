"""Drafts side by side in words: the environment's text, and below it the drafts in sight."""

import dataclasses

import jax
import jax.numpy as jnp

from envs.text import Lexicon, View
from envs.wrappers import SideBySide
from envs.wrappers.turn_budget_words import with_command


def compact(env: SideBySide) -> View:
    """The environment's own wording; below it `draft 1: left` for each draft in sight, and `take
    one` for the selector."""
    view, base = env.base.view, env.base
    if view.query is not None:
        raise ValueError(
            f"SideBySide around {base.name}, whose commands have free text: drafts are commands "
            "with a number"
        )
    lexicon = Lexicon()
    # The same fragments with the same indices, then ours.
    lexicon.table(view.lexicon)
    heads = [f"\ndraft {i + 1}: " for i in range(env.drafts)]
    lines, asked = jnp.asarray(lexicon.table(heads)), jnp.asarray(lexicon("\ntake one"))
    said = view
    for name in env.action_names[base.num_actions :]:
        said = with_command(said, lexicon, name)

    def first(key):
        return base.commands(base.initial(key, base.default_params), base.default_params)

    size = jax.eval_shape(first, jax.random.key(0)).shape[-1]

    def describe(state, params):
        own = view.describe(state.base, params.base).reshape(-1)
        seen = env.in_sight(state)
        commands = base.commands(state.base, params.base)[jnp.maximum(seen, 0)]
        drafts = jnp.concatenate([lines[:, None], commands], axis=1)
        drafts = jnp.where((seen >= 0)[:, None], drafts, 0)
        take = jnp.where(env.selecting(state), asked, 0)
        return jnp.concatenate([own, drafts.reshape(-1), take[None]])

    rules = f"\nFor each move {env.drafts} drafts are written, and one of them is played."
    if env.selects:
        rules += " If you read take one, name the best: take 1 for the first."
    longest = len(heads[-1]) + view.max_command_bytes
    return dataclasses.replace(
        said,
        lexicon=lexicon,
        describe=describe,
        slots=lambda state, params: view.slots(state.base, params.base),
        max_fragments=view.max_fragments + env.drafts * (1 + size) + 1,
        max_bytes=view.max_bytes + env.drafts * longest + len("\ntake one"),
        whole=False,
        thought=view.inner_thought,
        rules=view.rules + rules,
    )


WORDINGS = {"compact": compact}
