"""Nim in words: the piles."""

import jax.numpy as jnp
import numpy as np

from envs.nim import rules
from envs.nim.env import Nim
from envs.text import Lexicon, View, reading, template

RULES = (
    "You are playing Nim. In turn, each player takes any number of objects, but at least one, from "
    "one pile. Whoever takes the last object wins. Piles are numbered from 0."
)


def compact(env: Nim) -> View:
    """`3 4 5`: the objects left on each pile."""
    around = ["", *[" "] * (len(env.piles) - 1)]
    return _view(env, around, "{}", "Answer with a pile and how many to take, such as 0 3.")


def faithful(env: Nim) -> View:
    """TextArena's list of piles and its commands."""
    around = [f"\n  pile {i}: " for i in range(len(env.piles))]
    around[0] = f"Current Pile:{around[0]}"
    how = "Answer with a pile and how many to take in brackets, such as [0 3]."
    return _view(env, around, "[{}]", how)


def _read(env: Nim):
    """TextArena's rule: the first two numbers, alone in brackets with white space between them."""
    space, number = reading.SPACE, reading.NUMBER
    form = (b"[", space, number, reading.Run(reading.SPACES, 1), number, space, b"]")

    pairs = np.array(rules.pairs(env.piles))

    def read(codes, slots):
        same = jnp.all(reading.first_numbers(codes, form) == pairs, axis=1)
        return jnp.where(jnp.any(same), jnp.argmax(same), -1)

    return read


def _view(env: Nim, around: list[str], command: str, how: str) -> View:
    lexicon = Lexicon()
    first = lexicon.table(map(str, range(max(env.piles) + 1)))[0]
    before = lexicon.table(around)

    def describe(state, params, agent):
        numbers = first + state.game.piles.astype(jnp.int32)
        return jnp.stack([jnp.asarray(before), numbers], axis=1)

    longest = [command.format(name) for name in env.action_names]
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, text) for text in longest),
        slots=lambda state, params, agent: {},
        max_fragments=len(env.piles) + int(np.count_nonzero(before)),
        max_bytes=len("".join(around)) + sum(len(str(pile)) for pile in env.piles),
        max_command_bytes=max(map(len, longest)),
        read=_read(env),
        rules=f"{RULES} {how}",
    )


WORDINGS = {"compact": compact, "faithful": faithful}
