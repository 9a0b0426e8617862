"""Drafts and grades in words."""

import jax.numpy as jnp

from envs.drafts.env import Drafts
from envs.text import Lexicon, View, template


def compact(env: Drafts) -> View:
    """`draft 3 ? 5 wrote 3 before 5 so 5`: numbers, own notes, the earlier draft. In a review
    `grade 3 5 so 5 mine 2 5 so 5`: the draft to be graded, then the agent's own last one."""
    lexicon = Lexicon()
    numbers = jnp.asarray(lexicon.table([*(f" {n}" for n in range(env.numbers)), " ?"]))
    words = ("draft", "grade", " wrote", " before", " mine", " so")
    draft, grade, wrote, before, mine, so = (jnp.asarray(lexicon(word)) for word in words)

    def listed(head, notes, answer):
        some = jnp.any(notes >= 0) | (answer >= 0)
        told = jnp.where(notes >= 0, numbers[jnp.maximum(notes, 0)], 0)
        end = jnp.stack([so, numbers[jnp.maximum(answer, 0)]])
        end = jnp.where(answer >= 0, end, 0)
        return jnp.concatenate([jnp.where(some, head, 0)[None], told, end])

    def describe(state, params, agent):
        read, notes, own, other, answer = env.seen(state, agent)
        shown = jnp.concatenate([draft[None], numbers[read]])
        drafts = [shown, listed(wrote, notes, own), listed(before, other, answer)]
        graded = listed(grade, other, answer).at[0].set(grade)
        padding = jnp.zeros_like(shown)
        reviews = [graded, listed(mine, notes, own), padding]
        drafting = state.drafted[agent] < env.drafts
        return jnp.where(drafting, jnp.concatenate(drafts), jnp.concatenate(reviews))

    digits = 1 + len(str(env.numbers - 1))
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, name) for name in env.action_names),
        slots=lambda state, params, agent: {},
        max_fragments=1 + env.terms + 2 * (env.steps + 3),
        max_bytes=len("draft wrote so before so") + digits * (env.terms + 2 * env.steps + 2),
        max_command_bytes=max(map(len, env.action_names)),
        rules="Which is the largest number? Some are hidden, some may be misread. Note what you "
        "read, then answer. When all have drafted, grade what others wrote, 3 for the best. "
        f"Commands: {', '.join(env.action_names)}.",
    )


WORDINGS = {"compact": compact}
