"""The plan, the facts and the sources in words, for a planner and an executor."""

import jax.numpy as jnp

from envs.guided_research.env import PLANNER, GuidedResearch
from envs.research.rules import TOPICS
from envs.text import Lexicon, View, template

RULES = (
    "Two roles. The planner reads a list of facts and names for each the source that has it, or "
    "nothing; its commands are plan and a source, plan nothing. The executor opens sources for "
    "the fact that it is to find, with few openings, and answers; a page need not have the fact "
    "even in the right source. Commands: "
)


def compact(env: GuidedResearch) -> View:
    """Planner: `boss, heir, | plan heir`. Executor: `find boss | plan local 2 | opened web 1 |
    nothing | 4 left`."""
    lexicon = Lexicon()
    names = TOPICS[: env.topics]
    listed = lexicon.table(f"{name}, " for name in names)
    asked = lexicon.table(f"| plan {name}" for name in names)
    find = lexicon.table(f"find {name} " for name in names)
    places = [name.removeprefix("plan ") for name in env.action_names[: env.places]]
    planned = lexicon.table(["", *(f"| plan {place} " for place in places)])
    head, opened = lexicon("| opened "), lexicon.table(f"{place} " for place in places)
    results = lexicon.table(["", "| found one ", "| nothing "])
    left = lexicon.table(f"| {n} left" for n in range(env.budget + 1))

    def describe(state, params, agent):
        topic = state.question.topic
        now = jnp.maximum(topic[jnp.minimum(state.planned, env.facts[1] - 1)], 0)
        lines = jnp.where(topic >= 0, jnp.asarray(listed)[jnp.maximum(topic, 0)], 0)
        plan = jnp.append(lines, jnp.asarray(asked)[now])
        fact = env.first_missing(state.question)
        wanted = jnp.asarray(find)[jnp.maximum(topic[fact], 0)]
        lacks = jnp.any(env.missing(state.question))
        work = jnp.concatenate(
            [
                jnp.where(lacks, wanted, 0)[None],
                jnp.where(lacks, jnp.asarray(planned)[state.plan[fact] + 1], 0)[None],
                jnp.where(jnp.any(state.opened), head, 0)[None],
                jnp.where(state.opened, opened, 0),
                jnp.asarray(results)[state.result][None],
                jnp.asarray(left)[env.budget - state.openings][None],
            ]
        )
        plan = jnp.pad(plan, (0, size - plan.shape[0]))
        return jnp.where(agent == PLANNER, plan, jnp.pad(work, (0, size - work.shape[0])))

    size = max(env.facts[1] + 1, 5 + env.places)
    longest, place = max(map(len, names)), max(map(len, places))
    executor = longest + 6 + place + 8 + 9 + env.places * (place + 1) + 12 + 10
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, name) for name in env.action_names),
        slots=lambda state, params, agent: {},
        max_fragments=size,
        max_bytes=max(env.facts[1] * (longest + 2) + longest + 7, executor),
        max_command_bytes=max(map(len, env.action_names)),
        rules=f"{RULES}{', '.join(env.action_names)}.",
    )


WORDINGS = {"compact": compact}
