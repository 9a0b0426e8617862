"""A person and what was said to them, in words."""

import jax.numpy as jnp
import numpy as np

from envs.persuade.env import ARGUMENTS, MANNERS, REACTIONS, Persuade
from envs.text import Lexicon, View, template

STANCE = (
    *("strongly disagrees", "disagrees", "rather disagrees", "is undecided", "rather agrees"),
    *("agrees", "strongly agrees"),
)
# By reaction, from -1 on.
TAKEN = ("offended", "unmoved", "moved", "convinced")


def compact(env: Persuade) -> View:
    """`A warm person disagrees. facts: unmoved, story: convinced,`"""
    lexicon = Lexicon()
    person = lexicon.table(f"A {manner} person" for manner in MANNERS)
    stance = lexicon.table(f" {words}." for words in STANCE)
    taken = lexicon.table(f" {name}: {how}," for name in ARGUMENTS for how in TAKEN)
    number = np.arange(len(ARGUMENTS)) * len(TAKEN)

    def describe(state, params):
        reaction = env.reactions(state)
        told = jnp.where(state.used, taken[0] + number + reaction - REACTIONS[0], 0)
        head = jnp.stack([person[0] + state.manner, stance[0] + state.stance])
        return jnp.concatenate([head, told])

    longest = max(map(len, ARGUMENTS)) + max(map(len, TAKEN))
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, name) for name in env.action_names),
        slots=lambda state, params: {},
        max_fragments=2 + len(ARGUMENTS),
        max_bytes=len("A playful person rather disagrees.") + len(ARGUMENTS) * (longest + 4),
        max_command_bytes=max(map(len, env.action_names)),
        rules="Bring the person to strong agreement. People differ in what moves them, and nobody "
        f"likes to hear the same twice. Commands, one argument each: {', '.join(ARGUMENTS)}.",
    )


WORDINGS = {"compact": compact}
