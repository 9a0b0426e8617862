"""Questions made from pages, against a plain walk over the graph: answer, hops, no shortcut."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import playing
import pytest

from envs.search_qa import rules, synthesis

ENTITIES, RELATIONS, COUNT = 20, 4, 512


@functools.cache
def made(by, split="seen", hops=(1, 3)):
    """(pages as a table of lists, questions) of a corpus, eager and traced alike."""
    corpus = jnp.uint32(11)
    make = functools.partial(
        synthesis.synthesised, count=COUNT, entities=ENTITIES, relations=RELATIONS, hops=hops,
        split=split, by=by,
    )  # fmt: skip
    questions = jax.tree.map(np.asarray, jax.jit(make)(jax.random.key(2), corpus))
    return np.asarray(synthesis.objects_of(corpus, ENTITIES, RELATIONS)).tolist(), questions


def distances(pages, start):
    """Lookups that each entity is away, by breadth-first search."""
    away, border = {start: 0}, [start]
    while border:
        here = border.pop(0)
        for there in pages[here]:
            if there not in away:
                away[there] = away[here] + 1
                border.append(there)
    return away


@pytest.mark.parametrize("split", ["seen", "unseen"])
@pytest.mark.parametrize("by", ["crawl", "harden"])
def test_answer_hops_and_no_shortcut(by, split):
    pages, questions = made(by, split)
    along = np.asarray(rules.chain(jnp.uint32(11), jax.tree.map(jnp.asarray, questions), ENTITIES))
    for n in range(COUNT):
        here, hops = int(questions.entity[n]), int(questions.hops[n])
        path = questions.relations[n].astype(int).tolist()
        met = [here]
        for relation in path[:hops]:
            met.append(pages[met[-1]][relation])
        # One answer, the stated one, that many lookups away and by no fewer; nobody comes twice.
        assert along[n].tolist() == met + met[-1:] * (3 - hops)
        assert distances(pages, here)[met[-1]] == hops and len(set(met)) == hops + 1
        assert not any(path[hops:])
        assert ((here + sum(path)) % 4 == 0) == (split == "unseen")
    share = np.bincount(questions.hops, minlength=4) / COUNT
    np.testing.assert_allclose(share, [0, 1 / 3, 1 / 3, 1 / 3], atol=0.07)


def test_drawn_questions_have_shortcuts():
    """What the filter is for: of paths drawn blindly one in three is no question of three hops."""
    pages, _ = made("crawl")
    questions = rules.draw_questions(jax.random.key(5), COUNT, ENTITIES, RELATIONS, (3, 3), "seen")
    along = np.asarray(rules.chain(jnp.uint32(11), questions, ENTITIES))
    away = [distances(pages, int(row[0]))[int(row[-1])] for row in along]
    assert np.mean(np.asarray(away) < 3) > 1 / 3


def test_a_harder_question_keeps_the_answer():
    """By hand, in a ring with few other pages: the only page that says so is put in front."""
    ring = np.array([[(e + 1) % 6, (e + 1) % 6] for e in range(6)])
    ring[2] = [3, 5]
    make = jax.jit(synthesis.hardened, static_argnums=(3, 4))
    for seed in range(8):
        key = jax.random.key(seed)
        easy = make(key, jnp.asarray(ring), jnp.int32(1), 3, "seen")
        hard = make(key, jnp.asarray(ring), jnp.int32(3), 3, "seen")

        def answer(entity, path, hops, sound):
            for relation in np.asarray(path)[: int(hops)]:
                entity = ring[int(entity), int(relation)]
            return int(entity), bool(sound)

        # The easy question is drawn from those of its split alone, the first of three from all.
        assert answer(*easy)[1]
        at, sound = answer(*hard)
        if sound:
            named = int(hard[0])
            assert distances(ring.tolist(), named)[at] == 3
            last = ring[ring[named, int(hard[1][0])], int(hard[1][1])]
            assert ring[last, int(hard[1][2])] == at


@pytest.mark.parametrize("by", ["crawl", "harden"])
def test_nobody_guesses(by):
    """Without lookups the best answer is right about as seldom as any: 1 of 20."""
    pages, questions = made(by)
    along = np.asarray(rules.chain(jnp.uint32(11), jax.tree.map(jnp.asarray, questions), ENTITIES))
    assert np.all(along[:, -1] != along[:, 0])

    env, params, reset, _ = playing.functions("SearchQA-v1", **OPTIONS, synthesis=by)
    keys = jax.random.split(jax.random.key(0), 2048)
    state = jax.vmap(reset)(keys)
    ends = jax.vmap(lambda s: rules.chain(s.corpus, s.questions, ENTITIES)[0, -1])(state)
    # Corpora differ between episodes, so no answer is common.
    assert np.bincount(np.asarray(ends), minlength=20).max() / 2048 < 0.08


OPTIONS = {"objectives": 1, "entities": 20, "relations": 4, "min_hops": 2, "max_hops": 3}


@pytest.mark.parametrize("by", ["crawl", "harden"])
def test_the_expert_answers_them(by):
    env, params, *_ = playing.functions("SearchQA-v1", **OPTIONS, synthesis=by)
    history = playing.episodes(env, params, 256, int(params.max_steps_in_episode), seed=4)
    assert np.all(history.info["valid"]) and np.all(history.info["success"][:, -1])
    first = jax.tree.map(lambda x: x[:, 0], history.state)
    assert set(first.questions.hops[:, 0].tolist()) == {2, 3}
    # Nobody comes twice, so that each hop needs its own search.
    np.testing.assert_array_equal(history.last.time, first.questions.hops[:, 0] + 1)
