"""A user's mood and distance in words."""

import jax.numpy as jnp

from envs.support.env import FARTHEST, NEEDS, Support
from envs.text import Lexicon, View, template


def compact(env: Support) -> View:
    """`7 to go, angry`: the distance, and the mood if it is known."""
    lexicon = Lexicon()
    far = lexicon.table(f"{n} to go" for n in range(FARTHEST + 1))
    moods = lexicon.table(f", {name}" for name in NEEDS)

    def describe(state, params):
        mood = jnp.where(state.known, moods[0] + state.need, 0)
        return jnp.stack([far[0] + state.distance, mood])

    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, name) for name in env.action_names),
        slots=lambda state, params: {},
        max_fragments=2,
        max_bytes=len(f"{FARTHEST} to go") + max(len(f", {name}") for name in NEEDS),
        max_command_bytes=max(map(len, env.action_names)),
        rules="A user is some way from satisfied. Reassure who is worried, apologise to who is "
        "angry, explain to who is confused, stay with who is lonely; that brings them two "
        "closer. Ask to learn the mood, which changes after every reply.",
    )


WORDINGS = {"compact": compact}
