"""Foraging in words: places and levels of the visible objects."""

import jax.numpy as jnp
import numpy as np

from envs.foraging.env import Foraging
from envs.text import Lexicon, View, template

RULES = (
    "You and other players collect food on a field. You see rows, counted from the north, columns, "
    "counted from the west, and levels: me, you; p2, the second player; f, a food. A food is eaten "
    "when players next to it (not diagonally) load at once whose levels sum to its level or more; "
    "they share its points."
)


def compact(env: Foraging) -> View:
    """`me 3,4 L1; p2 5,4 L2; f 4,5 L3`."""
    lexicon = Lexicon()
    rows = lexicon.table(f" {i}" for i in range(env.size))[0]
    cols = lexicon.table(f",{i}" for i in range(env.size))[0]
    levels = lexicon.table(f" L{i}" for i in range(env.num_codes))[0]
    players = lexicon.table(f"; p{seat + 1}" for seat in range(env.players))
    me, food = lexicon("me"), lexicon("; f")

    def describe(state, params, agent):
        seen = env.observe_as(state, agent, params).astype(jnp.int32)
        seen = jnp.roll(seen, env.players, axis=0)
        named = jnp.asarray(players)[env.order(agent)].at[0].set(me)
        heads = jnp.append(named, jnp.full(env.foods, food))
        places = seen + np.array([rows - 1, cols - 1, levels], np.int32)
        said = jnp.append(heads[:, None], places, axis=1)
        return jnp.where(seen[:, 2:] > 0, said, 0).reshape(-1)

    things = env.players + env.foods
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, name) for name in env.action_names),
        slots=lambda state, params, agent: {},
        max_fragments=4 * things,
        max_bytes=things * len(f"; p1 {env.size - 1},{env.size - 1} L31"),
        max_command_bytes=5,
        rules=f"{RULES} Commands: {', '.join(env.action_names)}.",
    )


WORDINGS = {"compact": compact}
