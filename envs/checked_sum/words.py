"""Sums in words, for a solver and a verifier."""

import jax.numpy as jnp

from envs.checked_sum.env import VERIFIER, CheckedSum
from envs.text import Lexicon, View, template


def compact(env: CheckedSum) -> View:
    """Solver: `solve 3 + 5`, then `solve 3 + 5 not 2`. Verifier: `check 3 + 5 is 2`."""
    lexicon = Lexicon()
    heads = jnp.asarray(lexicon.table(["solve", "check"]))
    numbers = jnp.asarray(lexicon.table(f" {n}" for n in range(env.modulus)))
    words = [" +", " not", " is", " nothing"]
    plus, denied, stated, nothing = (jnp.asarray(lexicon(word)) for word in words)

    def describe(state, params, agent):
        checks = agent == VERIFIER
        listed = jnp.stack([numbers[state.terms], jnp.full(env.terms, plus)], axis=1)
        said = jnp.where(state.answer < 0, nothing, numbers[jnp.maximum(state.answer, 0)])
        told = jnp.where(state.tries > 0, jnp.stack([jnp.where(checks, stated, denied), said]), 0)
        head = jnp.where(checks, heads[1], heads[0])
        return jnp.concatenate([head[None], listed.reshape(-1)[:-1], told])

    asked = "Say the largest." if env.question == "largest" else f"Add modulo {env.modulus}."
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, name) for name in env.action_names),
        slots=lambda state, params, agent: {},
        max_fragments=1 + 2 * env.terms - 1 + 2,
        max_bytes=len("solve") + env.terms * (len(" 10") + len(" +")) + len(" not nothing"),
        max_command_bytes=max(map(len, env.action_names)),
        rules=f"{asked} If you read solve, say the answer; if you read check, "
        f"approve the answer or reject it. Commands: {', '.join(env.action_names)}.",
    )


WORDINGS = {"compact": compact}
