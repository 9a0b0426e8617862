"""Rules of question answering with search: a knowledge graph, retrieval, composed questions.

A corpus over E entities and R relations has one passage "e r o" for each pair (e, r), with index e
R + r; it is represented by a seed u32[], because its objects are a keyed hash. A question is an
entity and a path of relations; it asks where the path leads.

Read in code: MEM1 (`generation_think`, `reward_score/qa_multiple`): searches, documents, and exact
match of each answer. Its corpus is an encyclopedia behind a retriever; this one is a stand-in.
"""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

# One of four residues of a question is held out for the split "unseen".
RESIDUES = 4


@struct.dataclass
class Questions:
    """k questions of at most H hops: entity u8[k], relations u8[k, H] (0 beyond), hops u8[k]."""

    entity: jax.Array
    relations: jax.Array
    hops: jax.Array


def object_of(
    corpus: jax.Array, entity: jax.Array, relation: jax.Array, entities: int
) -> jax.Array:
    """Object of each (entity, relation), i32[...]; uniform over the other entities.

    MurmurHash3's mixing of the seed with the index of the pair.
    """
    pair = entity.astype(jnp.uint32) * np.uint32(256) + relation.astype(jnp.uint32)
    x = corpus ^ (pair + np.uint32(1)) * np.uint32(0x9E3779B1)
    x = (x ^ (x >> 16)) * np.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * np.uint32(0xC2B2AE35)
    x = x ^ (x >> 16)
    step = 1 + (x % np.uint32(entities - 1)).astype(jnp.int32)
    return (entity.astype(jnp.int32) + step) % entities


def draw_questions(
    key: jax.Array,
    count: int,
    entities: int,
    relations: int,
    hops: tuple[int, int],
    split: str,
    distinct: bool = False,
) -> Questions:
    """Independent uniform questions of `hops` (fewest, most) hops.

    distinct: they begin at different entities; uniform over those sets, count <= entities / 4.
    split: a question is "unseen" if the sum of the indices of its entity and its relations is a
    multiple of 4, else "seen"; so a quarter of all questions is held out, of every path.
    """
    fewest, most = hops
    hop_key, relation_key, entity_key, residue_key = jax.random.split(key, 4)
    length = jax.random.randint(hop_key, (count,), fewest, most + 1)
    path = jax.random.randint(relation_key, (count, most), 0, relations)
    path = jnp.where(np.arange(most) < length[:, None], path, 0)
    blocks = entities // RESIDUES
    if distinct:
        # Of four neighbours one: as many sets as with independent draws, without the repetitions.
        block = jax.random.permutation(entity_key, blocks)[:count]
    else:
        block = jax.random.randint(entity_key, (count,), 0, blocks)
    residue = jax.random.randint(residue_key, (count,), 1, RESIDUES)
    residue = jnp.zeros_like(residue) if split == "unseen" else residue
    entity = RESIDUES * block + (residue - jnp.sum(path, axis=1)) % RESIDUES
    return Questions(
        entity=entity.astype(jnp.uint8),
        relations=path.astype(jnp.uint8),
        hops=length.astype(jnp.uint8),
    )


def chain(corpus: jax.Array, questions: Questions, entities: int) -> jax.Array:
    """Entities along the path of each question, i32[k, H + 1]; the last one repeats at its end."""
    here = questions.entity.astype(jnp.int32)
    along = [here]
    for hop in range(questions.relations.shape[1]):
        there = object_of(corpus, here, questions.relations[:, hop], entities)
        here = jnp.where(hop < questions.hops, there, here)
        along.append(here)
    return jnp.stack(along, axis=1)


def retrieve(entity: jax.Array, relation: jax.Array, relations: int, count: int) -> jax.Array:
    """Indices of the `count` best passages for a query, i32[count].

    entity, relation: i32[], -1 if the query has none; at least one is given. Heads and relations of
    the passages are indexed, not their objects. The score of a passage is the sum of the weights of
    the query's words in it, and rarer words weigh more: an entity (in R passages) more than a
    relation (in E > R). Ties are broken by index, so after the pair itself come the entity's other
    relations in order.
    """
    place = np.arange(count)
    # The pair first, then the entity's relations without it.
    others = jnp.where(place <= relation, place - 1, place)
    pair = entity * relations + jnp.where(place == 0, relation, others)
    of_entity = entity * relations + place
    of_relation = place * relations + relation
    return jnp.where(relation < 0, of_entity, jnp.where(entity < 0, of_relation, pair))


def follow(
    known: jax.Array,
    along: jax.Array,
    questions: Questions,
    passages: jax.Array,
    relations: int,
) -> jax.Array:
    """Number of hops of each question looked up in order, i32[k], after a retrieval.

    known: before it, i32[k]. along: `chain`. passages: indices i32[P] of the retrieved ones.
    """
    most = questions.relations.shape[1]
    facts = along[:, :-1] * relations + questions.relations.astype(jnp.int32)
    for _ in range(min(most, passages.shape[0])):
        following = np.arange(most) == known[:, None]
        fact = jnp.sum(jnp.where(following, facts, 0), axis=1)
        found = jnp.any(passages == fact[:, None], axis=1)
        known = known + (found & (known < questions.hops))
    return known
