"""Debate in words: role, label and claim, and the picture."""

import jax.numpy as jnp

from envs.debate.env import GLYPHS, Debate
from envs.text import Lexicon, View, template

RULES = (
    "Two debaters see a picture and its label; one is to defend the label, the other to make a "
    "judge believe another one. You reveal pixels in turn, and the judge sees nothing else. The "
    "first line says your role, the true label and what the liar claims. In the picture, 0 and 1 "
    "are pixels off and on, - and + the same once revealed."
)


def compact(env: Debate) -> View:
    """`liar, label 2, claim 4`, then the rows of the picture. Pixels are named by row and column.

    For example `reveal 0,3`, or `claim 4` at the start.
    """
    lexicon = Lexicon()
    glyphs = lexicon.table(GLYPHS)[0]
    newline = lexicon("\n")
    roles = lexicon.table(("liar, label", "honest, label"))
    numbers = lexicon.table(f" {i}" for i in range(env.labels))[0]
    claims = lexicon(", claim")
    side = range(env.side)
    pixels = lexicon.table(f"{row},{col}" for row in side for col in side)[:, None]
    labels = lexicon.table(str(i) for i in range(env.labels))[:, None]

    def describe(state, params, agent):
        codes = state.picture + 2 * state.shown.astype(jnp.int32)
        rows = jnp.pad(
            glyphs + codes.reshape(env.side, env.side),
            ((0, 0), (1, 0)),
            constant_values=newline,
        )
        claimed = state.claim >= 0
        head = [
            jnp.asarray(roles)[jnp.int32(agent == state.honest)],
            numbers + state.label,
            jnp.where(claimed, claims, 0),
            jnp.where(claimed, numbers + state.claim, 0),
        ]
        return jnp.append(jnp.stack(head), rows.reshape(-1))

    return View(
        lexicon=lexicon,
        describe=describe,
        templates=(template(lexicon, "reveal {pixel}"), template(lexicon, "claim {label}")),
        slots=lambda state, params, agent: {"pixel": pixels, "label": labels},
        max_fragments=4 + env.side * (env.side + 1),
        max_bytes=len("honest, label 10, claim 10") + env.side * (env.side + 1),
        max_command_bytes=len("reveal 10,10"),
        rules=f"{RULES} Answer reveal and a pixel's row and column, such as reveal 0,3"
        + (", or at the start, as the liar, claim and a label." if env.precommit else "."),
    )


WORDINGS = {"compact": compact}
