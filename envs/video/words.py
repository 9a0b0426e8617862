"""Looks at a video in words."""

import jax.numpy as jnp

from envs.text import Lexicon, View, template
from envs.video.env import COLOURS, FIRST, SHOWN, Video


def compact(env: Video) -> View:
    """`which digit is red? all: 12 red, 40 blue. last: 10 red, 11 red 3,`"""
    lexicon = Lexicon()
    colours = COLOURS[: env.scenes]
    asked = lexicon.table(f"which digit is {colour}? all:" for colour in colours)
    last = lexicon(" last:")
    # Per frame each colour, then each colour with each digit.
    said = [f" {c}," for c in colours] + [f" {c} {d}," for c in colours for d in range(env.digits)]
    number = lexicon.table(f" {f}" for f in range(env.frames))
    content = lexicon.table(said)

    def listed(state, frames):
        coloured, digit = env.contents(state, frames)
        scene, some = jnp.argmax(coloured, axis=1), jnp.any(coloured, axis=1)
        with_digit = env.scenes + scene * env.digits + jnp.argmax(digit, axis=1)
        what = jnp.where(jnp.any(digit, axis=1), with_digit, scene)
        pair = jnp.stack([number[0] + frames, content[0] + what], axis=1)
        return jnp.where(some[:, None], pair, 0).reshape(-1)

    def describe(state, params):
        looked = jnp.where(state.look >= 0, last, 0)
        return jnp.concatenate(
            [
                (asked[0] + state.asked)[None],
                listed(state, jnp.asarray(env.first_shown)),
                looked[None],
                listed(state, env.last_look(state)),
            ]
        )

    shown = FIRST + SHOWN
    longest = len(f" {env.frames - 1}") + max(map(len, said))
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, name) for name in env.action_names),
        slots=lambda state, params: {},
        max_fragments=2 + 2 * shown,
        max_bytes=max(len(f"which digit is {c}? all:") for c in colours)
        + len(" last:")
        + shown * longest,
        max_command_bytes=max(map(len, env.action_names)),
        rules="A video has scenes of several colours with a digit in each. You are told which of "
        "its frames show a colour in a first look at all of it, and in your last look. Look "
        "closer, then answer with the digit of the scene that is asked for. Commands: "
        f"{env.action_names[0]}, and others of 8, 16 and 32 frames; answer and a digit.",
    )


WORDINGS = {"compact": compact}
