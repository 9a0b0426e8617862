"""Numbers and what was said before, in words."""

import jax.numpy as jnp

from envs.relay.env import Relay
from envs.text import Lexicon, View, template


def compact(env: Relay) -> View:
    """`first has 3 4`, `second has 1 heard 2 failed 0`."""
    lexicon = Lexicon()
    names = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
    heads = jnp.asarray(lexicon.table(f"{name} has" for name in names[: env.agents]))
    numbers = jnp.asarray(lexicon.table(f" {n}" for n in range(env.modulus)))
    heard_word, failed_word = (jnp.asarray(lexicon(word)) for word in (" heard", " failed"))

    def number(value):
        return jnp.where(value >= 0, numbers[jnp.maximum(value, 0)], 0)

    def describe(state, params, agent):
        own, heard = env.seen(state, agent)
        return jnp.concatenate(
            [
                heads[agent][None],
                number(own),
                jnp.where(jnp.any(heard >= 0), heard_word, 0)[None],
                number(heard),
                jnp.where(state.failed >= 0, failed_word, 0)[None],
                number(state.failed)[None],
            ]
        )

    asked = "the largest" if env.question == "largest" else f"the sum of all modulo {env.modulus}"
    digits = 1 + len(str(env.modulus - 1))
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, name) for name in env.action_names),
        slots=lambda state, params, agent: {},
        max_fragments=1 + 2 + 1 + env.agents + 2,
        max_bytes=len("seventh has heard failed") + digits * (env.agents + 3),
        max_command_bytes=max(map(len, env.action_names)),
        rules="Each player has a number, the first two; the last one's word is the team's answer, "
        f"{asked}. Commands: {', '.join(env.action_names)}.",
    )


WORDINGS = {"compact": compact}
