"""Questions made from the pages of a corpus: by a walk, or easy ones made harder (WebDancer).

Letters: E entities, R relations, H most hops of a question, k questions.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from envs.search_qa.rules import RESIDUES, Questions, object_of

# Of so many attempts at a question the first one is kept that passes the filters. One in two fails
# in the split "unseen", fewer in "seen".
ATTEMPTS = 24


class Attempt(NamedTuple):
    """A question: entity i32[], relations i32[H] in their order (0 beyond), hops i32[]; and whether
    it is sound, bool[]: of the split, and without a shortcut."""

    entity: jax.Array
    relations: jax.Array
    hops: jax.Array
    sound: jax.Array


def objects_of(corpus: jax.Array, entities: int, relations: int) -> jax.Array:
    """All pages of a corpus, i32[E, R]: the object of each entity and relation."""
    head, relation = np.indices((entities, relations))
    return object_of(corpus, jnp.asarray(head), jnp.asarray(relation), entities)


def in_split(entity: jax.Array, total: jax.Array, split: str) -> jax.Array:
    """Whether questions are of a split, bool[...], see `envs.search_qa.rules.draw_questions`.

    total: sum of the indices of a question's relations.
    """
    unseen = (entity + total) % RESIDUES == 0
    return unseen if split == "unseen" else ~unseen


def _one_of(key: jax.Array, allowed: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(place i32[] in the flattened array, drawn evenly among those allowed; if there is any)."""
    flat = allowed.reshape(-1)
    drawn = jax.random.categorical(key, jnp.where(flat, 0.0, -jnp.inf))
    return jnp.where(jnp.any(flat), drawn, 0).astype(jnp.int32), jnp.any(flat)


def crawled(key: jax.Array, objects: jax.Array, hops: jax.Array, most: int, split: str) -> Attempt:
    """CRAWLQA: a walk from page to page; the question is where it leads.

    From an entity that is drawn evenly the walk takes, in each step, a link drawn evenly among
    those to entities that no shorter walk reaches from there. So the answer of a question of h hops
    is at the distance h, and no fewer lookups find it: there is no shortcut.

    Args:
      key: PRNG key.
      objects: i32[E, R], see `objects_of`.
      hops: i32[], hops that the question shall have, 1 to `most`.
      most: H. split: "seen" or "unseen".

    Returns:
      `Attempt`; it is not sound where the walk has nowhere to go, or not in the split.
    """
    entities, relations = objects.shape
    start_key, *keys = jax.random.split(key, most + 1)
    start = jax.random.randint(start_key, (), 0, entities)
    here, near = start, jnp.arange(entities) == start
    path, sound = [], jnp.ones((), bool)
    for number, step_key in enumerate(keys, 1):
        goes = number <= hops
        total = sum(path, start * 0) + np.arange(relations)
        allowed = ~near[objects[here]]
        allowed &= (number < hops) | in_split(start, total, split)
        relation, found = _one_of(step_key, allowed)
        path.append(jnp.where(goes, relation, 0))
        sound &= found | ~goes
        here = jnp.where(goes, objects[here, relation], here)
        near = near.at[jnp.where(near[:, None], objects, start)].set(True)
    return Attempt(start, jnp.stack(path), hops, sound)


def hardened(key: jax.Array, objects: jax.Array, hops: jax.Array, most: int, split: str) -> Attempt:
    """E2HQA: an easy question, whose entity is replaced by a question of which it is the answer.

    The easy question asks for a page's object, evenly drawn: "the heir of deca". Then, hops - 1
    times, the entity that is named is replaced by "the R of X" with a page that says so, drawn
    evenly among those whose X is farther from the answer than the entity that it replaces: "the
    heir of the boss of mila". The answer stays. So the answer of a question of h hops is at the
    distance h of what it names, and no fewer lookups find it.

    Args:
      key, objects, hops, most, split: as for `crawled`.

    Returns:
      `Attempt`; it is not sound where no page says so, or it is not in the split.
    """
    entities, relations = objects.shape
    heads, ways = np.indices((entities, relations))
    keys = jax.random.split(key, most)
    asked, found = _one_of(keys[0], (hops > 1) | in_split(heads, ways, split))
    named, last = asked // relations, asked % relations
    # What was put in front comes last here.
    path, total, sound = [last], last, found
    answer = objects[named, last]
    near = jnp.arange(entities) == answer
    for number, step_key in enumerate(keys[1:], 2):
        goes = number <= hops
        near = near | jnp.any(near[objects], axis=1)
        allowed = (objects == named) & ~near[:, None]
        allowed &= (number < hops) | in_split(heads, total + ways, split)
        page, found = _one_of(step_key, allowed)
        named = jnp.where(goes, page // relations, named)
        path.append(jnp.where(goes, page % relations, 0))
        total, sound = total + path[-1], sound & (found | ~goes)
    order = hops - 1 - np.arange(most)
    in_order = jnp.where(order >= 0, jnp.stack(path)[jnp.maximum(order, 0)], 0)
    return Attempt(named, in_order, hops, sound)


SYNTHESES: dict[str, Callable[..., Attempt]] = {"crawl": crawled, "harden": hardened}


def synthesised(
    key: jax.Array,
    corpus: jax.Array,
    count: int,
    entities: int,
    relations: int,
    hops: tuple[int, int],
    split: str,
    by: str,
) -> Questions:
    """Questions of `hops` (fewest, most) hops, each number as often, made from a corpus.

    Each has one answer, which a lookup per hop finds (answerable), which the question does not
    name, and which no chain of fewer lookups from the entity that it names finds (no shortcut).

    Args:
      key: PRNG key.
      corpus: u32[], seed of the pages, see `envs.search_qa.rules.object_of`.
      count: k. entities, relations: of the corpus.
      hops: fewest and most.
      split: "seen" or "unseen", see `envs.search_qa.rules.draw_questions`.
      by: "crawl" or "harden", see `crawled` and `hardened`.

    Returns:
      `Questions` of k. In the rare case that `ATTEMPTS` attempts fail the last one stays, which has
      its answer and its hops, and may be outside the split or have a shortcut.

    References:
      Wu et al. (2025), WebDancer, https://arxiv.org/abs/2505.22648 (from notes, no code read).
      Deviations: there a language model writes the questions from pages of the Web, replaces
      entities by what it searches about them, and what a model answers without tools is filtered
      out. Here a corpus that is drawn for each episode is known to nobody, and shortcuts are what
      there is to filter; with `corpus_seed` facts can be learnt by heart, which no filter sees.
    """
    objects = objects_of(corpus, entities, relations)
    fewest, most = hops
    make = SYNTHESES[by]

    def one(key: jax.Array) -> Attempt:
        hop_key, key = jax.random.split(key)
        length = jax.random.randint(hop_key, (), fewest, most + 1)
        tries = jax.vmap(lambda k: make(k, objects, length, most, split))
        made = tries(jax.random.split(key, ATTEMPTS))
        first = jnp.where(jnp.any(made.sound), jnp.argmax(made.sound), ATTEMPTS - 1)
        return jax.tree.map(lambda x: x[first], made)

    entity, path, length, _ = jax.vmap(one)(jax.random.split(key, count))
    return Questions(
        entity=entity.astype(jnp.uint8),
        relations=path.astype(jnp.uint8),
        hops=length.astype(jnp.uint8),
    )
