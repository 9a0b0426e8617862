"""Facts, calls and pages in words, for a planner with workers and for one agent alone."""

import jax.numpy as jnp

from envs.research.env import Research
from envs.research.rules import FILLER, KINDS, TOPICS
from envs.solo_research.env import SoloResearch
from envs.text import Lexicon, View, template

RULES = (
    "Find the facts that are named, each in one of several sources, then have the question "
    "answered. A page need not have the fact even in the right source. "
)
TEAM = (
    "Two roles: if you read a list of facts, you plan: ask a worker for the first missing fact, or "
    "answer. If you read what to find, you work: open sources of your kind, then report. Commands "
    "of the planner: ask local, ask web, ask both, answer; of a worker: "
)


def _question(env, lexicon):
    """(function of a question: fragments of its facts, i32[H]; their number of bytes at most)"""
    topics = lexicon.table(f"{name}, " for name in TOPICS[: env.topics])
    found = lexicon.table(f"{name} found, " for name in TOPICS[: env.topics])

    def told(question):
        topic = jnp.maximum(question.topic, 0)
        said = jnp.where(env.known(question), jnp.asarray(found)[topic], jnp.asarray(topics)[topic])
        return jnp.where(question.topic >= 0, said, 0)

    longest = max(map(len, TOPICS[: env.topics]))
    return told, env.facts[1] * (longest + len(" found, "))


def _page(env, lexicon):
    """(function of a question: fragments of the page's filler words, i32[W]; bytes at most)"""
    words = lexicon.table(f"{word} " for word in FILLER)

    def read(question):
        return jnp.where(question.page >= 0, jnp.asarray(words)[jnp.maximum(question.page, 0)], 0)

    return read, env.filler * (max(map(len, FILLER)) + 1)


def team(env: Research) -> View:
    """Planner: `boss found, heir, | last found | 4 calls`, with prices ` at 0.05`. Worker: `find
    heir | web | opened 2 | ama beto nothing | turn 1`; pages are filler words, then whether the
    fact is there."""
    lexicon = Lexicon()
    told, question_bytes = _question(env, lexicon)
    read, page_bytes = _page(env, lexicon)
    last = lexicon.table(["", "| last found ", "| last failed "])
    left = lexicon.table(f"| {n} calls" for n in range(env.calls + 1))
    prices = lexicon.table(f" at {price}" for price in env.prices)
    find = lexicon.table(f"find {name} " for name in TOPICS[: env.topics])
    kinds = lexicon.table(f"| {kind} " for kind in KINDS)
    opened = lexicon.table(f"{j + 1} " for j in range(env.sources))
    heads = lexicon.table(["| opened ", "| "])
    results = lexicon.table(["", "it is here ", "nothing "])
    holds = lexicon.table(["", "| you have it "])
    turns = lexicon.table(f"| turn {n + 1}" for n in range(env.patience))

    def describe(state, params, agent):
        plan = [told(state.question), jnp.asarray(last)[state.last][None]]
        plan.append(jnp.asarray(left)[env.calls - state.calls][None])
        if env.prices:
            plan.append(jnp.asarray(prices)[state.price][None])
        topic = jnp.maximum(state.question.topic[state.fact], 0)
        work = [jnp.stack([jnp.asarray(find)[topic], jnp.asarray(kinds)[state.kind]])]
        any_ = jnp.any(state.opened)
        work.append(jnp.where(any_, heads[0], 0)[None])
        work.append(jnp.where(state.opened, opened, 0))
        paged = state.result > 0
        work.append(jnp.where(paged, heads[1], 0)[None])
        work.append(read(state.question))
        tail = [jnp.asarray(results)[state.result], jnp.asarray(holds)[state.holds.astype(int)]]
        tail.append(jnp.asarray(turns)[jnp.minimum(state.turn, env.patience - 1)])
        work.append(jnp.stack(tail))
        planned, worked = jnp.concatenate(plan), jnp.concatenate(work)
        return jnp.where(agent == 0, _padded(planned, size), _padded(worked, size))

    priced = max((4 + len(str(price)) for price in env.prices), default=0)
    size = max(env.facts[1] + 3, 7 + env.sources + env.filler)
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, name) for name in env.action_names),
        slots=lambda state, params, agent: {},
        max_fragments=size,
        max_bytes=max(
            question_bytes + 15 + 11 + priced,
            page_bytes + 12 + 8 + 10 + 2 * env.sources + 3 + 12 + 15 + 10,
        ),
        max_command_bytes=max(map(len, env.action_names)),
        rules=f"{RULES}{TEAM}{', '.join(env.action_names[4:])}.",
    )


def solo(env: SoloResearch) -> View:
    """`boss found, heir, | opened local 2 web 1 | ama beto nothing`."""
    lexicon = Lexicon()
    told, question_bytes = _question(env, lexicon)
    read, page_bytes = _page(env, lexicon)
    head, page = lexicon("| opened "), lexicon("| ")
    names = [f"{kind} {j + 1} " for kind in KINDS for j in range(env.sources)]
    opened = lexicon.table(names)
    results = lexicon.table(["", "it is here", "nothing"])

    def describe(state, params):
        return jnp.concatenate(
            [
                told(state.question),
                jnp.where(jnp.any(state.opened), head, 0)[None],
                jnp.where(state.opened, opened, 0),
                jnp.where(state.result > 0, page, 0)[None],
                read(state.question),
                jnp.asarray(results)[state.result][None],
            ]
        )

    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, name) for name in env.action_names),
        slots=lambda state, params: {},
        max_fragments=env.facts[1] + 3 + 2 * env.sources + env.filler,
        max_bytes=question_bytes + 9 + sum(map(len, names)) + 2 + page_bytes + 10,
        max_command_bytes=max(map(len, env.action_names)),
        rules=f"{RULES}Commands: {', '.join(env.action_names)}.",
    )


def _padded(fragments, size: int):
    return jnp.pad(fragments, (0, size - fragments.shape[0]))


def compact(env) -> View:
    """The wording `team` of games of several agents, or `solo` for one."""
    return solo(env) if env.num_agents == 1 else team(env)


WORDINGS = {"compact": compact}
