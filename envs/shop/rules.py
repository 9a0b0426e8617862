"""Rules of the shop: retrieval, the list of results, and the graded reward.

Read in code: WebShop `web_agent_text_env` (pages), `engine/goal` (goals, reward). Its index is
Lucene's over the product's text; the ranking here uses the same kind of weights, in closed form.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from envs.shop import catalogue as shop_catalogue
from envs.shop.catalogue import Catalogue, Goal

# Words of one query; later ones are ignored.
MAX_WORDS = 4
_RADIX = len(shop_catalogue.VOCABULARY) + 1


def encode_query(words: jax.Array) -> jax.Array:
    """An index for the words i32[MAX_WORDS] (-1 for none) in any order, i32[]."""
    code = jnp.zeros((), jnp.int32)
    for word in jnp.sort(words)[::-1]:
        code = code * _RADIX + (word + 1)
    return code


def decode_query(code: jax.Array) -> jax.Array:
    """Words i32[MAX_WORDS] of an index, the highest first, -1 for none."""
    digits = [(code // _RADIX**i) % _RADIX - 1 for i in reversed(range(MAX_WORDS))]
    return jnp.stack(digits)


def is_query(code: jax.Array) -> jax.Array:
    """Whether an index can encode a query with at least one word, bool[]."""
    return (code >= _RADIX ** (MAX_WORDS - 1)) & (code < _RADIX**MAX_WORDS)


def contains(catalogue: Catalogue, word: jax.Array) -> jax.Array:
    """Which products a search for one word (-1: none) finds, bool[P].

    The search index contains titles (noun and the first two attributes) and the values of the
    options.
    """
    product = shop_catalogue.unpack(catalogue.kind)
    attribute = word - shop_catalogue.ATTRIBUTE_WORD
    value = word - shop_catalogue.VALUE_WORD
    last = len(shop_catalogue.VALUES) - 1
    offered = (catalogue.offer >> jnp.clip(value, 0, last).astype(jnp.uint32)) & 1
    titled = (product.attributes[0] == attribute) | (product.attributes[1] == attribute)
    return (product.noun == word) | (titled & (attribute >= 0)) | ((offered == 1) & (value >= 0))


class Results(NamedTuple):
    """Results of a query, in classes of equal score; N = 2^MAX_WORDS - 1 subsets of its words.

    members u32[N, W]: products with the score of each subset, one bit per product. above i32[N]:
    number of products with a higher score. size i32[N]: size of the class. matches i32[]: total
    number of results.
    """

    members: jax.Array
    above: jax.Array
    size: jax.Array
    matches: jax.Array


def _count(masks: jax.Array) -> jax.Array:
    """Bits set in u32[..., W], i32[...]."""
    return jnp.sum(jax.lax.population_count(masks), axis=-1, dtype=jnp.int32)


def search(catalogue: Catalogue, words: jax.Array) -> Results:
    """Ranks the products for a query, words i32[MAX_WORDS] with -1 for none.

    Products are ordered by score(p) = sum over the query's words w in p of idf(w), highest first,
    ties by product index. idf(w) = log(1 + (P - df + 1/2) / (df + 1/2)) is BM25's, with df the
    number of products that contain w; it is rounded to 1/64, so that equal scores are exactly equal
    on all platforms.

    Four words give at most 15 different scores, so no sorting is needed: sets of products are bit
    masks, and the product at a position of the results follows from the sizes of the sets.
    """
    products = catalogue.kind.shape[0]
    df = np.arange(products + 1)
    idf = np.round(64 * np.log1p((products - df + 0.5) / (df + 0.5))).astype(np.int32)
    bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
    padding = -products % 32

    having = []
    for i in range(MAX_WORDS):
        found = jnp.pad(contains(catalogue, words[i]), (0, padding)).reshape(-1, 32)
        having.append(jnp.sum(jnp.where(found, bits, 0), axis=1, dtype=jnp.uint32))
    having = jnp.stack(having)
    weight = jnp.where(words >= 0, jnp.asarray(idf)[_count(having)], 0)

    subset = np.arange(1, 2**MAX_WORDS)[:, None] >> np.arange(MAX_WORDS) & 1
    exactly = jnp.where(subset[:, :, None] == 1, having, ~having)
    exactly = jax.lax.reduce_and(exactly, axes=(1,))
    score = jnp.sum(subset * weight, axis=1, dtype=jnp.int32)
    size = _count(exactly)
    same, higher = score[:, None] == score, score[:, None] < score
    members = jax.lax.reduce_or(jnp.where(same[:, :, None], exactly, 0), axes=(1,))
    return Results(
        members=members,
        above=jnp.sum(jnp.where(higher, size, 0), axis=1, dtype=jnp.int32),
        size=jnp.sum(jnp.where(same, size, 0), axis=1, dtype=jnp.int32),
        matches=jnp.sum(size, dtype=jnp.int32),
    )


def product_at(results: Results, place: jax.Array) -> jax.Array:
    """Product at a position of the results, i32[]; arbitrary if there is none."""
    here = (results.above <= place) & (place < results.above + results.size)
    # Subsets of equal score have equal members, so the maximum selects them.
    mask = jnp.max(jnp.where(here[:, None], results.members, 0), axis=0)
    left = place - jnp.max(jnp.where(here, results.above, 0))
    counts = jax.lax.population_count(mask).astype(jnp.int32)
    before = jnp.cumsum(counts) - counts
    word = (before <= left) & (left < before + counts)
    number = jnp.sum(jnp.where(word, 32 * np.arange(mask.shape[0]), 0), dtype=jnp.int32)
    left = left - jnp.sum(jnp.where(word, before, 0), dtype=jnp.int32)
    bits = jnp.max(jnp.where(word, mask, 0))
    # Binary search: the number of bits set below decides which half contains the bit in
    # question.
    for width in (16, 8, 4, 2, 1):
        below = jax.lax.population_count(bits & np.uint32(2**width - 1)).astype(jnp.int32)
        upper = left >= below
        left = jnp.where(upper, left - below, left)
        bits = jnp.where(upper, bits >> width, bits)
        number = number + jnp.where(upper, width, 0)
    return number


def place_of(results: Results, product: jax.Array) -> jax.Array:
    """Position of a product in the results, i32[]; -1 if it is not found."""
    numbers = np.arange(32 * results.members.shape[1]).reshape(-1, 32)
    bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
    single = jnp.sum(jnp.where(numbers == product, bits, 0), axis=1, dtype=jnp.uint32)
    lower = jnp.sum(jnp.where(numbers < product, bits, 0), axis=1, dtype=jnp.uint32)
    inside = jnp.any(results.members & single != 0, axis=1)
    place = results.above + _count(results.members & lower)
    return jnp.max(jnp.where(inside, place, -1))


def score(kind: jax.Array, chosen: jax.Array, goal: Goal) -> jax.Array:
    """Reward of buying a product, f32[]; chosen u8[options]: value of each option + 1, 0 for none.

        r = r_type (n_att + n_opt + [price <= cap]) / (|att| + |opt| + 1)

    n_att counts the goal's attributes that the product has, hidden ones included, n_opt the goal's
    options that were chosen. r_type is 1 for the goal's noun, else 0: WebShop's factor by the nouns
    common to both titles, which also takes the values 0.1 and 0.5 for titles with many nouns.
    """
    product = shop_catalogue.unpack(kind)
    points = (product.price <= goal.cap).astype(jnp.int32)
    for i in range(2):
        wanted = goal.attributes[i].astype(jnp.int32)
        points = points + sum(attribute == wanted for attribute in product.attributes)
    for option in range(chosen.shape[0]):
        points = points + (chosen[option] == (goal.colour, goal.size)[option] + 1)
    total = 2 + chosen.shape[0] + 1
    return jnp.where(product.noun == goal.noun, points.astype(jnp.float32) / total, 0.0)
