"""Rules of the shop: retrieval, the list of results, and the graded reward.

Read in code: WebShop `web_agent_text_env` (pages), `engine/goal` (goals, reward). Its index is
Lucene's over the product's text; the one here ranks by the same kind of weights, in closed form.
"""

import jax
import jax.numpy as jnp
import numpy as np

from envs.rules import shop_catalogue
from envs.rules.shop_catalogue import Catalogue, Goal

# Words of one query; those after are ignored.
MAX_WORDS = 4
_RADIX = len(shop_catalogue.VOCABULARY) + 1


def encode_query(words: jax.Array) -> jax.Array:
    """A number for words i32[MAX_WORDS] (-1 for none), i32[]; the first word weighs most."""
    code = jnp.zeros((), jnp.int32)
    for i in range(MAX_WORDS):
        code = code * _RADIX + (words[i] + 1)
    return code


def decode_query(code: jax.Array) -> jax.Array:
    """Words i32[MAX_WORDS] of a number, -1 for none."""
    digits = [(code // _RADIX**i) % _RADIX - 1 for i in reversed(range(MAX_WORDS))]
    return jnp.stack(digits)


def is_query(code: jax.Array) -> jax.Array:
    """Whether a number is that of a query with at least one word, and that one first, bool[]."""
    return (code >= _RADIX ** (MAX_WORDS - 1)) & (code < _RADIX**MAX_WORDS)


def contains(catalogue: Catalogue, word: jax.Array) -> jax.Array:
    """Which products a search for one word (-1: none) finds, bool[P].

    The index holds titles (noun and the first two attributes) and the values of the options.
    """
    product = shop_catalogue.unpack(catalogue.kind)
    attribute = word - shop_catalogue.ATTRIBUTE_WORD
    value = word - shop_catalogue.VALUE_WORD
    last = len(shop_catalogue.VALUES) - 1
    offered = (catalogue.offer >> jnp.clip(value, 0, last).astype(jnp.uint32)) & 1
    titled = (product.attributes[0] == attribute) | (product.attributes[1] == attribute)
    return (product.noun == word) | (titled & (attribute >= 0)) | ((offered == 1) & (value >= 0))


def rank(catalogue: Catalogue, words: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(place of each product in the results, u8[P]; how many products match, i32[]).

    Products are ordered by score(p) = sum over the query's words w in p of idf(w), highest first,
    ties by product number. idf(w) = log(1 + (P - df + 1/2) / (df + 1/2)) is BM25's, with df the
    products that have w; it is rounded to 1/64, so that equal scores are equal everywhere.
    """
    products = catalogue.kind.shape[0]
    df = np.arange(products + 1)
    idf = np.round(64 * np.log1p((products - df + 0.5) / (df + 0.5))).astype(np.int32)
    score = jnp.zeros(products, jnp.int32)
    for i in range(words.shape[0]):
        found = contains(catalogue, words[i])
        weight = jnp.asarray(idf)[jnp.sum(found, dtype=jnp.int32)]
        score = score + jnp.where(found, weight, 0)
    # Places by counting, since a sort of every episode's products at every step is slower.
    key = score * products + np.arange(products, dtype=np.int32)[::-1]
    place = jnp.sum(key[None, :] > key[:, None], axis=1, dtype=jnp.int32)
    return place.astype(jnp.uint8), jnp.sum(score > 0, dtype=jnp.int32)


def at_places(
    place: jax.Array, places: jax.Array, found: jax.Array, values: jax.Array
) -> jax.Array:
    """Values [P] of the products at `places` [I] of the results, u32[I]; 0 beyond those found."""
    there = (place.astype(jnp.int32) == places[:, None]) & (places < found)[:, None]
    return jnp.sum(jnp.where(there, values, 0), axis=1, dtype=jnp.uint32)


def score(kind: jax.Array, colour: jax.Array, size: jax.Array, goal: Goal, options: int):
    """Reward of buying a product with chosen colour and size (word number + 1, 0: none), f32[].

        r = r_type (n_att + n_opt + [price <= cap]) / (|att| + |opt| + 1)

    n_att counts the goal's attributes that the product has, hidden ones included, n_opt the goal's
    options that were chosen. r_type is 1 for the goal's noun, else 0: WebShop's factor by the nouns
    that both titles have in common, which knows 0.1 and 0.5 besides for titles of many nouns.
    """
    product = shop_catalogue.unpack(kind)
    points = (product.price <= goal.cap).astype(jnp.int32)
    for i in range(2):
        wanted = goal.attributes[i].astype(jnp.int32)
        points = points + sum(attribute == wanted for attribute in product.attributes)
    points = points + (colour == goal.colour + 1)
    if options == 2:
        points = points + (size == goal.size + 1)
    right = product.noun == goal.noun
    return jnp.where(right, points.astype(jnp.float32) / (3 + options), 0.0)
