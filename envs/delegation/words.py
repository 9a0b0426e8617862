"""Facts, calls and pages in words, for a planner and the workers that are called."""

import jax.numpy as jnp

from envs.delegation.env import LOST, Delegation
from envs.research.rules import FAILED, FILLER, KINDS, TOPICS
from envs.text import Lexicon, View, template

RULES = (
    "Find the facts that are named, each in one of several sources, then have the question "
    "answered. A page need not have the fact even in the right source. Two roles: if you read a "
    "list of facts, you plan: ask workers for the first missing fact or for the first two, who "
    "work at the same time, or answer. If you read what to find, you work: open sources of your "
    "kind and report, or pass the call on to a worker of the other kind. Commands: "
)
# Behind the name of a fact: nothing yet, found, and of its last call failed or lost.
STATUS = ("", " found", " failed", " lost")


def compact(env: Delegation) -> View:
    """Planner: `boss found, heir failed, | 4 calls`. Worker: `find heir | web | opened 2 | ama beto
    nothing | turn 1 | can pass`; pages are filler words, then whether the fact is there."""
    lexicon = Lexicon()
    names, (most, filler) = TOPICS[: env.topics], (env.facts[1], env.filler)
    facts = [lexicon.table(f"{name}{status}, " for name in names) for status in STATUS]
    left = lexicon.table(f"| {n} calls" for n in range(env.calls + 1))
    find = lexicon.table(f"find {name} " for name in names)
    kinds = lexicon.table(f"| {kind} " for kind in KINDS)
    opened = lexicon.table(f"{j + 1} " for j in range(env.sources))
    heads = lexicon.table(["| opened ", "| "])
    words = lexicon.table(f"{word} " for word in FILLER)
    results = lexicon.table(["", "it is here ", "nothing ", "lost "])
    holds = lexicon.table(["", "| you have it "])
    turns = lexicon.table(f"| turn {n + 1}" for n in range(env.patience))
    passes = lexicon.table(["", " | can pass"])

    def planned(state):
        failed = (state.last == FAILED) * 2 + (state.last == LOST) * 3
        status = jnp.where(state.question.found, 1, failed)
        topic = state.question.topic
        said = jnp.asarray(facts)[status, jnp.maximum(topic, 0)]
        said = jnp.where(topic >= 0, said, 0)
        return jnp.append(said, jnp.asarray(left)[env.left(state)])

    def worked(state, agent, params):
        topic = jnp.maximum(state.question.topic[state.fact[agent]], 0)
        page, result = state.page[agent], state.result[agent]
        read = jnp.where(page >= 0, jnp.asarray(words)[jnp.maximum(page, 0)], 0)
        turn = jnp.minimum(state.turn[agent], env.patience - 1)
        parts = [
            jnp.stack([jnp.asarray(find)[topic], jnp.asarray(kinds)[state.kind[agent]]]),
            jnp.where(jnp.any(state.opened[agent]), heads[0], 0)[None],
            jnp.where(state.opened[agent], opened, 0),
            jnp.where(result > 0, heads[1], 0)[None],
            read,
            jnp.stack(
                [
                    jnp.asarray(results)[result],
                    jnp.asarray(holds)[state.holds[agent].astype(int)],
                    jnp.asarray(turns)[turn],
                    jnp.asarray(passes)[env.can_pass(state)[agent].astype(int)],
                ]
            ),
        ]
        return jnp.concatenate(parts)

    size = max(most + 1, 8 + env.sources + filler)

    def describe(state, params, agent):
        plan, work = planned(state), worked(state, agent, params)
        plan, work = (jnp.pad(x, (0, size - x.shape[0])) for x in (plan, work))
        return jnp.where(agent == 0, plan, work)

    longest, word = max(map(len, names)), max(map(len, FILLER)) + 1
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, name) for name in env.action_names),
        slots=lambda state, params, agent: {},
        max_fragments=size,
        max_bytes=max(
            most * (longest + 9) + 9,
            longest + 6 + 8 + 9 + 2 * env.sources + 2 + filler * word + 11 + 14 + 9 + 11,
        ),
        max_command_bytes=max(map(len, env.action_names)),
        rules=f"{RULES}{', '.join(env.action_names)}.",
    )


WORDINGS = {"compact": compact}
