"""Chains of two lookups in words: each observation is what the last action gave."""

import jax.numpy as jnp

from envs.lookup_check.env import CHECK, LOOKUP, SUGGEST, LookupCheck
from envs.text import Lexicon, View, template


def compact(env: LookupCheck) -> View:
    """`find oak` at first and after a plan; `is elm` after a lookup or a reflection; `was elm now
    elm was fir now ash` after a suggestion; `said fir` after a check."""
    lexicon = Lexicon()
    names = jnp.asarray(lexicon.table([*(f" {name}" for name in env.names), " nothing"]))
    find, is_, said = (jnp.asarray(lexicon(word)) for word in ("find", "is", "said"))
    was, was_too, now = (jnp.asarray(lexicon(word)) for word in ("was", " was", " now"))

    def describe(state, params):
        tag = env.tag_of(state.last)
        begins = (tag < LOOKUP)[None]
        head = jnp.where(begins, find, jnp.where(tag == CHECK, said, is_))
        what = jnp.where(tag == CHECK, state.suggested, state.found)
        brief = jnp.concatenate([head, names[jnp.where(begins, state.asked, what)], jnp.zeros(6)])
        first, second = state.hops
        told, again = jnp.stack([was, names[first], now, names[state.again[0]]]), state.again[1]
        whole = [told, jnp.stack([was_too, names[second], now, names[again]])]
        checked = jnp.concatenate(whole)
        return jnp.where(tag == SUGGEST, checked, brief.astype(jnp.int32))

    longest = max(map(len, env.names))
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, name) for name in env.action_names),
        slots=lambda state, params: {},
        max_fragments=8,
        max_bytes=2 * len("was now  was") + 4 * max(longest, len("nothing")) + 4,
        max_command_bytes=max(map(len, env.action_names)),
        rules="You are asked what follows what follows a word. A tool says what follows one, and "
        "lies now and then. Plan, look up, reflect, suggest, check your suggestion, answer. "
        "Commands: "
        f"{', '.join(env.action_names)}.",
    )


WORDINGS = {"compact": compact}
