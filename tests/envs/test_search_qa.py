"""SearchQA: a set of questions by hand, the corpus, retrieval, the expert, and both wordings."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import playing
import pytest

import envs
from agentrl.actors.text_source import foreseen_commands
from envs.search_qa import rules
from envs.search_qa.env import ENTITIES, RELATIONS
from envs.search_qa.rules import Questions
from envs.text import join

SMALL = {"entities": 20, "relations": 4, "corpus_seed": 7}


functions = functools.partial(playing.functions, "SearchQA-v1")
teller = functools.partial(playing.teller, "SearchQA-v1")
reader = functools.partial(playing.reader, "SearchQA-v1")


@functools.cache
def table(seed=7, entities=20, relations=4):
    """Objects of the whole corpus, i32[E, R]."""
    heads, ways = np.indices((entities, relations))
    return np.asarray(
        rules.object_of(jnp.uint32(seed), jnp.asarray(heads), jnp.asarray(ways), entities)
    )


def by_hand(**options):
    """(env, params, state, step): the heir of entity 3, and the pal of the boss of entity 5."""
    env, params, reset, step = functions(**SMALL, **options)
    questions = Questions(
        entity=jnp.array([3, 5], jnp.uint8),
        relations=jnp.array([[1, 0], [0, 2]], jnp.uint8),
        hops=jnp.array([1, 2], jnp.uint8),
    )
    return env, params, reset(jax.random.key(0)).replace(questions=questions), step


def run(step, state, *actions):
    """Takes actions, all of them legal: (state, rewards, observations)."""
    rewards, observations = [], []
    for action in actions:
        observation, state, reward, _, info = step(state, action)
        assert bool(info["valid"])
        rewards.append(float(reward))
        observations.append(np.asarray(observation).tolist())
    return state, rewards, observations


def search(entity, relation):
    return int(entity) * 4 + relation


def answer(entity):
    return 20 * 4 + int(entity)


def test_scripted_episode():
    env, params, state, step = by_hand()
    objects = table()
    heir, boss = objects[3, 1], objects[5, 0]
    pal = objects[boss, 2]
    first, second = [4, 2, 0], [6, 1, 3]
    seen = np.asarray(playing.method(env, "observe")(state, params)).tolist()
    assert seen == [0, *first, *second, 0, 0, 0]
    actions = [search(3, 1), answer(heir), search(5, 0), search(boss, 2), answer(pal)]
    state, rewards, seen = run(step, state, *actions)
    assert rewards == [0, 0.5, 0, 0, 0.5]
    blank = [0, 0, 0]
    assert seen == [
        [0, *first, *second, 4, 2, heir + 1],
        [1, *blank, *second, *blank],
        [1, *blank, *second, 6, 1, boss + 1],
        [1, *blank, *second, boss + 1, 3, pal + 1],
        [2, *blank, *blank, *blank],
    ]
    assert bool(env.is_terminated(state, params)) and bool(env.is_success(state, params))


def test_wrong_answers_costs_and_format():
    env, params, start, step = by_hand()
    wrong, pal = (table()[3, 1] + 1) % 20, table()[table()[5, 0], 2]
    state, rewards, _ = run(step, start, answer(wrong), answer(pal))
    assert rewards == [0, 0.5]
    assert bool(env.is_terminated(state, params)) and not bool(env.is_success(state, params))
    *_, step = functions(**SMALL, search_cost=0.25, format_reward=0.125)
    _, rewards, _ = run(step, start, search(0, 0), answer(wrong), search(1, 1), answer(pal))
    assert rewards == [-0.25, 0, -0.25, 0.5 + 0.125]


def test_limit():
    env, params, *_ = by_hand()
    # Two hops and an answer for each of two questions, and two to spare.
    assert env.default_params.max_steps_in_episode == 2 * 3 + 2 == params.max_steps_in_episode
    assert envs.make("SearchQA-v1", objectives=4, max_hops=1)[1].max_steps_in_episode == 10


def test_questions_that_are_shown_once():
    env, params, state, step = by_hand(show_questions=False)
    seen = np.asarray(playing.method(env, "observe")(state, params)).tolist()
    assert seen[1:7] == [4, 2, 0, 6, 1, 3]
    # An illegal action shows nothing, so the questions stay; a search and an answer hide them.
    observation, *_ = step(state, env.num_actions)
    assert np.asarray(observation).tolist() == seen
    for actions in ([search(3, 1)], [answer(0)], [search(3, 1), answer(0), search(1, 1)]):
        _, _, observations = run(step, state, *actions)
        assert observations[-1][1:7] == [0] * 6


def test_answers_come_last():
    env, params, state, step = by_hand(answer_last=True)
    state, *_ = run(step, state, search(3, 1), search(5, 0), answer(0))
    _, _, reward, _, info = step(state, search(5, 0))
    assert not bool(info["valid"]) and float(reward) == 0
    legal = np.asarray(playing.method(env, "legal")(state, params))
    np.testing.assert_array_equal(np.flatnonzero(legal), np.arange(80, 100))
    run(step, state, answer(1))


def test_corpus():
    big = table(0, 64, 8)
    assert big.min() == 0 and big.max() == 63
    assert np.all(big != np.arange(64)[:, None])
    # Uniform over the other entities: 64 corpora of 512 facts, 63 steps, 520 of each expected.
    steps = [(table(seed, 64, 8) - np.arange(64)[:, None]) % 64 for seed in range(64)]
    counts = np.bincount(np.concatenate(steps).reshape(-1), minlength=64)[1:]
    expected = 64 * 512 / 63
    # Chi-square with 62 degrees of freedom: mean 62, deviation 11.
    assert 30 < np.sum((counts - expected) ** 2 / expected) < 100
    # Two corpora agree on one fact in 63.
    assert np.mean(steps[0] == steps[1]) < 0.05


def test_corpora_are_drawn_or_constant():
    keys = [jax.random.key(seed) for seed in range(8)]
    assert len({int(functions()[2](key).corpus) for key in keys}) == 8
    assert {int(functions(**SMALL)[2](key).corpus) for key in keys} == {7}


@functools.cache
def drawn(split, hops=(1, 3)):
    """4096 questions on 20 entities and 4 relations, as NumPy."""
    draw = jax.jit(lambda key: rules.draw_questions(key, 4096, 20, 4, hops, split))
    return jax.tree.map(np.asarray, draw(jax.random.key(3)))


@pytest.mark.parametrize("split", ["seen", "unseen"])
def test_questions(split):
    questions = drawn(split)
    share = np.bincount(questions.hops, minlength=4) / 4096
    np.testing.assert_allclose(share, [0, 1 / 3, 1 / 3, 1 / 3], atol=0.03)
    beyond = np.arange(3) >= questions.hops[:, None]
    assert np.all(questions.relations[beyond] == 0)
    residue = (questions.entity.astype(int) + questions.relations.sum(1)) % 4
    assert set(residue) == ({0} if split == "unseen" else {1, 2, 3})
    # Uniform over entities and over relations, whatever the split.
    np.testing.assert_allclose(np.bincount(questions.entity) / 4096, np.full(20, 0.05), atol=0.015)
    used = np.bincount(questions.relations[~beyond]) / (~beyond).sum()
    np.testing.assert_allclose(used, np.full(4, 0.25), atol=0.02)


def test_chain():
    objects = table()
    questions = jax.tree.map(lambda x: x[:200], drawn("seen"))
    along = np.asarray(rules.chain(jnp.uint32(7), jax.tree.map(jnp.asarray, questions), 20))
    for row, entity, path, hops in zip(
        along, questions.entity, questions.relations, questions.hops, strict=True
    ):
        expected = [entity]
        for relation in path[:hops]:
            expected.append(objects[expected[-1], relation])
        expected += [expected[-1]] * (4 - len(expected))
        np.testing.assert_array_equal(row, expected)


def test_retrieval_against_scores():
    find = jax.jit(rules.retrieve, static_argnums=(2, 3))
    heads, ways = np.indices((20, 4)).reshape(2, -1)
    for entity in (-1, 0, 1, 19):
        for relation in (-1, 0, 2, 3):
            if entity == relation == -1:
                continue
            # Weights as of inverse document frequencies: 4 passages an entity, 20 a relation.
            score = (heads == entity) * np.log(80 / 4) + (ways == relation) * np.log(80 / 20)
            order = np.argsort(-score, kind="stable")
            np.testing.assert_array_equal(find(entity, relation, 4, 4), order[:4])


def test_known_hops():
    env, params, state, step = by_hand(passages=3)
    boss = table()[5, 0]

    def known(*actions):
        return np.asarray(run(step, state, *actions)[0].known).tolist()

    assert known(search(3, 1)) == [1, 0]
    # By the second hop alone nothing is known; passages of the same entity count.
    assert boss not in (3, 5) and known(search(boss, 2)) == [0, 0]
    assert known(search(5, 0), search(boss, 2)) == [0, 2]
    assert known(search(5, 3), search(boss, 2)) == [0, 2]
    assert known(search(5, 0), search(5, 0)) == [0, 1]


def test_anchors():
    env, params, start, step = by_hand()

    def same(of, first, second):
        anchor = playing.method(env, "fingerprint", of=of)
        states = [run(step, start, *actions)[0] for actions in (first, second)]
        return np.array_equal(*(anchor(state, params) for state in states))

    useless, heir, boss = search(0, 3), search(3, 1), search(5, 0)
    # What is known counts, in whatever order it came and whatever was looked up besides.
    assert same("state", [heir, boss], [boss, heir])
    assert same("state", [], [useless])
    assert same("state", [heir], [useless, heir, useless])
    assert not same("state", [heir], [boss])
    assert not same("state", [heir], [heir, answer(0)])
    assert same("state", [heir, answer(0)], [heir, answer(1)])
    # What is seen is the last search.
    assert same("observation", [heir, boss], [boss])
    assert not same("observation", [heir, boss], [boss, heir])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"objectives": 5, "answer_last": True, "passages": 2, "show_questions": False},
        {"min_hops": 2, "max_hops": 3, "split": "unseen", **SMALL},
    ],
    ids=str,
)
def test_expert(options):
    env, params, *_ = functions(**options)
    history = playing.episodes(env, params, 512, int(params.max_steps_in_episode), seed=4)
    first, last = jax.tree.map(lambda x: x[:, 0], history.state), history.last
    assert np.all(history.info["valid"]) and np.all(history.info["success"][:, -1])
    np.testing.assert_allclose(history.reward.sum(axis=1), 1.0, rtol=1e-6)
    # A search a hop and an answer each; a fact that two questions share is looked up once.
    needed = first.questions.hops.astype(int).sum(1) + env.objectives
    assert np.all(last.time <= needed) and np.mean(last.time == needed) > 0.8
    assert np.all(needed <= params.max_steps_in_episode - 2)


def test_free_searches():
    env, _, state, step = by_hand()
    parsed = reader(**SMALL)
    name, other, boss, heir = *ENTITIES[3:5], *RELATIONS[:2]
    # Any order, unknown words, and words too many: the first of each kind counts.
    for reply in (f"search {heir} {name}", f"Search the {heir} of {name} please"):
        assert parsed(reply, state) == search(3, 1)
    assert parsed(f"search {name} {boss} {other} {heir}", state) == search(3, 0)
    # One word alone: the entity's first passage, or the relation's.
    for reply, passage in ((f"search {name}", search(3, 0)), (f"search {heir}", search(0, 1))):
        action = parsed(reply, state)
        assert action > env.num_actions
        found, *_ = run(step, state, action)
        np.testing.assert_array_equal(found.passages, [passage])
    nothing = parsed("search everything", state)
    assert nothing == env.num_actions and not bool(step(state, nothing)[4]["valid"])


@pytest.mark.parametrize("wording", ["compact", "faithful"])
def test_text_says_what_the_array_says(wording):
    options = {**SMALL, "objectives": 3, "passages": 2}
    env, params, *_ = functions(**options, wording=wording)
    view = env.view

    def policy(key, state):
        return jax.random.randint(key, (), 0, env.num_actions)

    states = playing.episodes(env, params, 24, 12, policy, seed=1).state
    look = jax.vmap(jax.vmap(lambda s: (view.describe(s, params), env.observe(s, params))))
    fragments, seen = jax.tree.map(np.asarray, jax.jit(look)(states))
    fragments = fragments.reshape(-1, fragments.shape[-1])
    said = [join(view.lexicon, row) for row in fragments]
    seen = [bytes(row) for row in seen.reshape(len(said), -1)]
    assert len(set(zip(said, seen, strict=True))) == len(set(said)) == len(set(seen)) > 150
    assert max(map(len, said)) <= view.max_bytes
    assert np.count_nonzero(fragments, axis=1).max() <= view.max_fragments


def test_words():
    env, params, state, step = by_hand()
    describe = teller(**SMALL)
    three, five = ENTITIES[3], ENTITIES[5]
    heir = ENTITIES[table()[3, 1]]
    questions = f"\nq1 {three} heir\nq2 {five} boss pal"
    assert describe(state) == env.render(state, params) == "done 0/2" + questions
    found, *_ = run(step, state, search(3, 1))
    assert describe(found) == f"done 0/2{questions}\nfound {three} heir {heir}"
    answered, *_ = run(step, found, answer(0))
    assert describe(answered) == f"done 1/2\nq2 {five} boss pal"
    assert describe(run(step, answered, answer(0))[0]) == "done 2/2"

    describe = teller(**SMALL, wording="faithful")
    second = f"Who is the pal of the boss of {five}?"
    questions = f"Questions: Who is the heir of {three}?; {second}"
    assert describe(state) == f"Answered: 0 of 2. {questions}"
    document = f"Doc 1(Title: {three}) The heir of {three} is {heir}."
    passages = f"\n<information>\n{document}\n</information>"
    assert describe(found) == f"Answered: 0 of 2. {questions}{passages}"
    assert describe(answered) == f"Answered: 1 of 2. Questions: {second}"


def test_notes_carry_what_was_found():
    """A recorded episode of the expert: what it reads, notes down and writes."""
    options = {"show_questions": False, "answer_last": True, "wording": "notes"}
    env, params, state, step = by_hand(**options)
    view, expert = env.view, playing.method(env, "expert")
    describe = teller(**SMALL, **options)
    name = [*ENTITIES[:20]]
    three, five = name[3], name[5]
    heir, boss = table()[3, 1], table()[5, 0]
    pal = table()[boss, 2]
    recorded = []
    while not bool(env.is_terminated(state, params)):
        note = join(view.lexicon, np.asarray(view.thought(state, params)))
        said = join(view.lexicon, np.asarray(foreseen_commands(env, state, params, 2)))
        recorded.append((describe(state), note, said))
        state, *_ = run(step, state, int(expert(state, params)))
    known = f" {three}={name[heir]};"
    more = "3 or more turns left"
    assert recorded == [
        (f"{more}\nask {three} heir; {five} boss pal;", "", f"search {three} heir"),
        (f"{more}\nfound {three} heir={name[heir]}", known, f"search {five} boss"),
        (
            f"{more}\nfound {five} boss={name[boss]}",
            f"{known} {five}={name[boss]};",
            f"search {name[boss]} pal",
        ),
        (
            f"{more}\nfound {name[boss]} pal={name[pal]}",
            f"{known} {five}={name[pal]};",
            f"answer {name[heir]}||answer {name[pal]}",
        ),
        (more, f"{known} {five}={name[pal]};", f"answer {name[pal]}"),
    ]
    assert bool(env.is_success(state, params))


def test_notes_have_the_same_words_for_any_number_of_questions():
    views = [functions(objectives=k, wording="notes", answer_last=True)[0].view for k in (2, 8)]
    assert len({view.lexicon for view in views}) == 1
    # Turns left are told when there are few.
    env, params, state, step = by_hand(wording="notes")
    describe = teller(**SMALL, wording="notes")
    told = []
    for _ in range(8):
        told.append(describe(state).split("\n")[0])
        state, *_ = run(step, state, search(0, 0))
    assert told == ["3 or more turns left"] * 6 + ["2 turns left", "1 turns left"]


def test_notes_read_back_as_commands():
    env, _, state, _ = by_hand(wording="notes")
    parsed = reader(**SMALL, wording="notes")
    assert parsed(f"search {ENTITIES[3]} {RELATIONS[1]}", state) == search(3, 1)
    assert parsed(f"search {RELATIONS[1]} of {ENTITIES[3]}", state) == search(3, 1)
    assert parsed(f"answer {ENTITIES[7]}", state) == answer(7)


@pytest.mark.parametrize("split", ["seen", "unseen"])
def test_distinct_questions(split):
    draw = jax.jit(
        jax.vmap(lambda key: rules.draw_questions(key, 5, 20, 4, (1, 1), split, distinct=True))
    )
    drawn = jax.tree.map(np.asarray, draw(jax.random.split(jax.random.key(0), 2048)))
    assert all(len(set(row)) == 5 for row in drawn.entity.tolist())
    residue = (drawn.entity.astype(int) + drawn.relations.sum(2)) % 4
    assert set(residue.reshape(-1)) == ({0} if split == "unseen" else {1, 2, 3})
    np.testing.assert_allclose(
        np.bincount(drawn.entity.reshape(-1)) / (5 * 2048), np.full(20, 0.05), atol=0.015
    )


def test_names_are_different():
    assert len(set(ENTITIES)) == 256 and {len(name) for name in ENTITIES} == {4}
    assert not set(ENTITIES) & set(RELATIONS) and len(set(RELATIONS)) == 16


def test_is_legal_agrees_with_legal():
    env, params, state, step = by_hand(answer_last=True)
    actions = jnp.arange(-2, env.num_actions + 1)
    one = jax.jit(jax.vmap(lambda s, a: env.is_legal(s, a, params), in_axes=(None, 0)))
    for now in (state, run(step, state, answer(0))[0]):
        legal = np.asarray(playing.method(env, "legal")(now, params))
        np.testing.assert_array_equal(one(now, actions), [False, False, *legal, False])
