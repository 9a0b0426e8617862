"""Results of teams in words, for the one who admits them to their bank."""

import jax.numpy as jnp

from envs.shared_bank.env import SharedBank
from envs.text import Lexicon, View, template


def compact(env: SharedBank) -> View:
    """`topic 3, passed, needed by 2, new, 4 of 9 in the bank`."""
    lexicon = Lexicon()
    topics = jnp.asarray(lexicon.table(f"topic {k}" for k in range(env.topics)))
    checks = jnp.asarray(lexicon.table([", failed", ", passed"]))
    needs = jnp.asarray(lexicon.table(f", needed by {n}" for n in range(env.teams)))
    known = jnp.asarray(lexicon.table([", new", ", known"]))
    counts = [f", {n} of {env.results} in the bank" for n in range(env.results + 1)]
    filled = jnp.asarray(lexicon.table(counts))

    def describe(state, params):
        topic, checked, others, there = env.seen(state)
        told = [topics[topic], checks[checked.astype(jnp.int32)], needs[others]]
        return jnp.stack([*told, known[there.astype(jnp.int32)], filled[jnp.sum(state.admitted)]])

    longest = f"topic {env.topics}, passed, needed by {env.teams}, known"
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, name) for name in env.action_names),
        slots=lambda state, params: {},
        max_fragments=5,
        max_bytes=len(longest) + max(map(len, counts)),
        max_command_bytes=len("admit"),
        rules="Teams share a bank. Admit a result that helps other teams; every entry costs "
        "attention, and a wrong one harms. Commands: skip, admit.",
    )


WORDINGS = {"compact": compact}
