"""Meadow in words: where the agent is, where it has to go, and what grows around it."""

import jax.numpy as jnp

from envs.meadow import rules
from envs.meadow.env import Meadow, seen
from envs.text import Lexicon, View, template

RULES = (
    "You walk on a meadow of seven by seven places, to a goal. You read your column and row, those "
    "of the goal, where you last went, and what is to your left, right, below and above. Commands: "
    "left, right, down, up."
)


def compact(env: Meadow) -> View:
    """`at 3 2 to 6 6 after up: path grass path wall`."""
    lexicon = Lexicon()
    at, to = lexicon("at"), lexicon(" to")
    numbers = lexicon.table(f" {i}" for i in range(rules.SIZE))
    last = lexicon.table(f" after {name}:" for name in ("nothing", *env.action_names))
    ground = lexicon.table((" path", " grass", " wall"))

    def describe(state, params):
        codes = seen(env.maps, state.goal, state.place, state.before).astype(jnp.int32)
        place = jnp.asarray(numbers)[codes[:4]]
        return jnp.concatenate(
            [
                jnp.asarray(at)[None], place[:2], jnp.asarray(to)[None], place[2:],
                jnp.asarray(last)[codes[4]][None], jnp.asarray(ground)[codes[5:]],
            ]
        )  # fmt: skip

    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, name) for name in env.action_names),
        slots=lambda state, params: {},
        max_fragments=11,
        max_bytes=len("at to after nothing:") + 4 * 2 + 4 * len(" grass"),
        max_command_bytes=5,
        rules=RULES,
    )


WORDINGS = {"compact": compact}
