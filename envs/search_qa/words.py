"""Questions, passages and commands of SearchQA in words."""

import jax.numpy as jnp
import numpy as np

from envs.search_qa.env import ENTITIES, RELATIONS, SearchQA
from envs.text import Lexicon, Query, View, template

# Number of words of a search that are kept: more than two, so that a repeated one does no harm.
MAX_WORDS = 4
# Wording "notes": more turns left are not told apart, so that tasks of any length read alike.
HINTED = 3

RULES = (
    "Answer the questions one after the other, in their order. You can search a collection of "
    "short texts for the words of a person and of a relation, and should look up step by step "
    "what you need: nobody knows it by heart. Commands: {search}; {answer}, for the first question "
    "that is open."
)


def _take(table: np.ndarray, index) -> jnp.ndarray:
    return jnp.asarray(table)[jnp.clip(index, 0, len(table) - 1)]


def _view(
    env: SearchQA,
    lexicon: Lexicon,
    describe,
    forms: tuple[str, str],
    *,
    one_form: bool = False,
    **bounds,
) -> View:
    """Shared by the wordings; forms: of a search and of an answer, as `search ` and `answer `.

    one_form: the words of a search are the fragments that stand in questions, with the space in
    front of them.
    """
    entities = lexicon.table(ENTITIES[: env.entities])
    relations = lexicon.table(RELATIONS[: env.relations])
    things = {"entity": entities[:, None], "relation": relations[:, None]}
    search, answer = forms
    asks = template(lexicon, f"{search}{{entity}} {{relation}}")
    if one_form:
        asks = template(lexicon, f"{search.rstrip()}{{asked}}{{relation}}")
        things["asked"] = lexicon.table(f" {name}" for name in ENTITIES[: env.entities])[:, None]
        ways = lexicon.table(f" {name}" for name in RELATIONS[: env.relations])
        things["relation"] = ways[:, None]
    if env.answer_last:
        lexicon("||")  # an expert gives all answers in one reply, see `SearchQA.foresees`
    longest = max(len(search) + 4 + 1 + 5, len(answer) + 4)
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=(
            asks,
            template(lexicon, f"{answer}{{entity}}"),
        ),
        slots=lambda state, params: things,
        max_command_bytes=longest,
        query=Query(search, "", np.concatenate([entities, relations]), MAX_WORDS, env.encode_query),
        rules=RULES.format(search=f"{search}{{words}}", answer=f"{answer}{{name}}"),
        **bounds,
    )


def compact(env: SearchQA) -> View:
    """`done 0/2`, the open questions as paths, `q1 deca boss heir`, and `found deca boss mila`."""
    lexicon = Lexicon()
    entities = lexicon.table(f" {name}" for name in ENTITIES[: env.entities])
    relations = lexicon.table(f" {name}" for name in RELATIONS[: env.relations])
    done = lexicon.table(f"done {n}/{env.objectives}" for n in range(env.objectives + 1))
    numbers = lexicon.table(f"\nq{n + 1}" for n in range(env.objectives))
    found = lexicon("\nfound")

    def describe(state, params):
        questions = state.questions
        there = np.arange(env.max_hops) < questions.hops[:, None]
        path = jnp.where(there, _take(relations, questions.relations), 0)
        asked = jnp.stack([numbers, _take(entities, questions.entity)], axis=1)
        asked = jnp.concatenate([asked, path], axis=1)
        asked = jnp.where(env.shown(state)[:, None], asked, 0)
        head, relation, tail = env.found(state)
        passages = [jnp.full_like(head, found), _take(entities, head)]
        passages += [_take(relations, relation), _take(entities, tail)]
        passages = jnp.where((state.passages >= 0)[:, None], jnp.stack(passages, axis=1), 0)
        first = _take(done, state.answered)[None]
        return jnp.concatenate([first, asked.reshape(-1), passages.reshape(-1)])

    return _view(
        env,
        lexicon,
        describe,
        ("search ", "answer "),
        max_fragments=1 + env.objectives * (2 + env.max_hops) + 4 * env.passages,
        max_bytes=10 + env.objectives * (4 + 5 + 6 * env.max_hops) + env.passages * (6 + 16),
    )


def faithful(env: SearchQA) -> View:
    """Questions in sentences, joined by `; `, and the passages as documents.

    `Answered: 0 of 2. Questions: Who is the heir of the boss of deca?; Who is the pal of bari?`,
    then `<information>`, `Doc 1(Title: deca) The boss of deca is mila.`

    Source: MEM1's `generation_think` (read) for the documents. It writes commands as tags of the
    reply, which belong to the grammar here, so they are written as in UserRL: `[search] deca boss`,
    `[answer] mila`. The wording of the questions is ours.
    """
    lexicon = Lexicon()
    names = ENTITIES[: env.entities]
    entities, ends = lexicon.table(names), lexicon.table(f"{name}?" for name in names)
    facts = lexicon.table(f") The {name} of " for name in RELATIONS[: env.relations])
    ways = lexicon.table(f"the {name} of " for name in RELATIONS[: env.relations])
    done = lexicon.table(f"Answered: {n} of {env.objectives}." for n in range(env.objectives + 1))
    first, more = lexicon(" Questions: Who is "), lexicon("; Who is ")
    opens = lexicon("\n<information>")
    documents = lexicon.table(f"\nDoc {n + 1}(Title: " for n in range(env.passages))
    is_, stop, closes = lexicon(" is "), lexicon("."), lexicon("\n</information>")

    def describe(state, params):
        questions, shown = state.questions, env.shown(state)
        leading = np.arange(env.objectives, dtype=np.uint8) == state.answered
        there = np.arange(env.max_hops) < questions.hops[:, None]
        # The last hop is written first.
        path = jnp.where(there, _take(ways, questions.relations), 0)[:, ::-1]
        start = jnp.where(leading, first, more)[:, None]
        asked = jnp.concatenate([start, path, _take(ends, questions.entity)[:, None]], axis=1)
        asked = jnp.where(shown[:, None], asked, 0)
        head, relation, tail = env.found(state)
        title = _take(entities, head)
        passages = [documents, title, _take(facts, relation), title, jnp.full_like(title, is_)]
        passages += [_take(entities, tail), jnp.full_like(title, stop)]
        there = state.passages >= 0
        passages = jnp.where(there[:, None], jnp.stack(passages, axis=1), 0)
        around = jnp.where(there[0], jnp.stack([opens, closes]), 0)
        return jnp.concatenate(
            [
                _take(done, state.answered)[None],
                asked.reshape(-1),
                around[:1],
                passages.reshape(-1),
                around[1:],
            ]
        )

    question = len(" Questions: Who is ") + env.max_hops * len("the guide of ") + 5
    passage = len("\nDoc 1(Title: deca) The guide of deca is mila.")
    return _view(
        env,
        lexicon,
        describe,
        ("[search] ", "[answer] "),
        max_fragments=3 + env.objectives * (2 + env.max_hops) + 7 * env.passages,
        max_bytes=20 + env.objectives * question + env.passages * passage + 29,
    )


def notes(env: SearchQA) -> View:
    """Without numbers, for a policy that is trained on few questions and tested on many, and with
    what it should note down: `5 turns left`, `ask deca boss; fi heir;`, `found deca boss=mila`.

    Turns left are counted up to HINTED, `3 or more turns left`; more than k searches and k answers
    need none (MEM1's hint). Before a command the expert thinks of what it has found out on all
    questions, `deca=mila;fi=nobo;`: the memory that MEM1's policy rewrites in each turn.
    """
    lexicon = Lexicon()
    names = ENTITIES[: env.entities]
    entities, things = lexicon.table(f" {name}" for name in names), lexicon.table(names)
    relations = lexicon.table(f" {name}" for name in RELATIONS[: env.relations])
    left = [*(f"{n} turns left" for n in range(HINTED)), f"{HINTED} or more turns left"]
    hints = lexicon.table(left)
    ask, ends, found, is_ = map(lexicon, ("\nask", ";", "\nfound", "="))

    def describe(state, params):
        questions, shown = state.questions, env.shown(state)
        there = np.arange(env.max_hops) < questions.hops[:, None]
        path = jnp.where(there, _take(relations, questions.relations), 0)
        entity = _take(entities, questions.entity)[:, None]
        asked = jnp.concatenate([entity, path, jnp.full_like(entity, ends)], axis=1)
        asked = jnp.where(shown[:, None], asked, 0).reshape(-1)
        head, relation, tail = env.found(state)
        passages = [jnp.full_like(head, found), _take(entities, head), _take(relations, relation)]
        passages += [jnp.full_like(head, is_), _take(things, tail)]
        passages = jnp.where((state.passages >= 0)[:, None], jnp.stack(passages, axis=1), 0)
        hint = _take(hints, params.max_steps_in_episode - state.time)[None]
        opening = jnp.where(jnp.any(shown), ask, 0)[None]
        return jnp.concatenate([hint, opening, asked, passages.reshape(-1)])

    def thought(state, params):
        there, entity, reached = env.noted(state)
        is_known, end = jnp.full_like(entity, is_), jnp.full_like(entity, ends)
        pairs = [_take(entities, entity), is_known, _take(things, reached), end]
        return jnp.where(there[:, None], jnp.stack(pairs, axis=1), 0).reshape(-1)

    return _view(
        env,
        lexicon,
        describe,
        ("search ", "answer "),
        one_form=True,
        max_fragments=2 + env.objectives * (2 + env.max_hops) + 5 * env.passages,
        max_bytes=24 + env.objectives * (6 + 6 * env.max_hops) + env.passages * (6 + 16),
        thought=thought,
    )


WORDINGS = {"compact": compact, "faithful": faithful, "notes": notes}
