"""Chains of steps in words, for the agent that thinks at length and the one that is brief."""

import jax.numpy as jnp

from envs.step_chain.env import SHORT, StepChain
from envs.text import Lexicon, Template, View

LENGTHY = (" so", " since", " which", " then", " thus", " hence", " now", " as")


def compact(env: StepChain) -> View:
    """`long easy hard easy`: who speaks, and the steps that are left. Replies: `think` and for each
    step as many words as it costs; `brief`, ` step` for each, and ` answer` or ` rethink`."""
    lexicon = Lexicon()
    heads = jnp.asarray(lexicon.table(["long", "short"]))
    kinds = jnp.asarray(lexicon.table([" easy", " hard"]))
    thought = [LENGTHY[n % len(LENGTHY)] for n in range(env.words)]
    forms = []
    for name in env.action_names:
        kind, count = name.split()
        steps = int(count)
        brief = ["brief", *[" step"] * steps, f" {kind}"]
        forms.append(["think", *thought * steps] if kind == "think" else brief)

    def describe(state, params, agent):
        there, hard = env.ahead(state)
        left = jnp.where(there, kinds[hard.astype(jnp.int32)], 0)
        return jnp.concatenate([heads[1 * (agent == SHORT)][None], left])

    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(Template(tuple(map(lexicon, form))) for form in forms),
        slots=lambda state, params, agent: {},
        max_fragments=1 + env.steps,
        max_bytes=len("short") + env.steps * len(" easy"),
        max_command_bytes=max(len("".join(form)) for form in forms),
        rules="Work the steps that are left, in order. If you read long, think none or some of "
        "them through; if you read short, work none or some briefly, where hard ones may go wrong, "
        "and answer, or have them thought over.",
    )


WORDINGS = {"compact": compact}
