"""Catalogues of the shop, drawn from uniform numbers: two words per product.

A catalogue of P products is `Catalogue(kind, offer)`, both u32[P]:

kind  = noun (6 bits) | three attributes (6 each) | price in whole dollars (7) offer = colours (12
  bits, one per value) | sizes (8)

The title of a product is its first two attributes and its noun; the third attribute is on the
features page only. Products come in families of four that share the noun: a base, and siblings that
differ from it in one attribute, in the values of one option (none in common), or in the price
(above every possible cap of a goal of the base).
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

CATEGORIES = {
    "clothing": "shirt coat skirt dress scarf hat socks belt",
    "kitchen": "mug bowl plate jug pan knife spoon tray",
    "furniture": "chair table desk shelf stool bench sofa bed",
    "electronics": "lamp phone radio drone clock cable mouse fan",
    "food": "tea bread rice honey juice pasta snack jam",
    "beauty": "soap comb gel brush towel cream razor wig",
    "toys": "doll kite ball robot drum dice yoyo train",
    "garden": "spade rake hose pot seeds fence tent vase",
}
NOUNS = tuple(" ".join(CATEGORIES.values()).split())
NOUNS_PER_CATEGORY = len(NOUNS) // len(CATEGORIES)
ATTRIBUTES = (
    *("soft", "firm", "light", "heavy", "warm", "cool", "slim", "wide", "thin", "thick", "long"),
    *("short", "round", "oval", "flat", "bent", "plain", "shiny", "matte", "rough", "sleek"),
    *("quiet", "tough", "new", "retro", "rural", "fancy", "basic", "cord", "wool", "silk", "linen"),
    *("felt", "oak", "steel", "glass", "paper", "cork", "cane", "tin", "fresh", "dry", "pure"),
    *("vegan", "local", "boxed", "mini", "woven"),
)
COLOURS = (
    *("red", "blue", "green", "black", "white", "grey"),
    *("pink", "brown", "teal", "gold", "lime", "beige"),
)
SIZES = ("xs", "s", "m", "l", "xl", "2xl", "3xl", "4xl")
VALUES = COLOURS + SIZES
# Words that a query may contain, in the order of their indices.
VOCABULARY = NOUNS + ATTRIBUTES + VALUES
ATTRIBUTE_WORD = len(NOUNS)
VALUE_WORD = len(NOUNS) + len(ATTRIBUTES)

FAMILY = 4
# Minimum and maximum number of values that an option offers.
MAX_OFFERED = 4


@struct.dataclass
class Catalogue:
    """Packed products, kind and offer u32[P]; see the module."""

    kind: jax.Array
    offer: jax.Array


@struct.dataclass
class Goal:
    """The product to buy, all u8: any product with these properties counts.

    target[]: the product that the goal was made from. noun[], attributes[2] in order of number,
    colour[], size[] (unused with one option): indices of words. cap[]: highest price in dollars.
    """

    target: jax.Array
    noun: jax.Array
    attributes: jax.Array
    colour: jax.Array
    size: jax.Array
    cap: jax.Array


class Product(NamedTuple):
    """Fields of `kind`, i32[...] each; `attributes` are three arrays, the last one hidden."""

    noun: jax.Array
    attributes: tuple[jax.Array, jax.Array, jax.Array]
    price: jax.Array


def unpack(kind: jax.Array) -> Product:
    """The fields of packed products, u32[...]."""
    array = jnp if isinstance(kind, jax.Array) else np
    first, second, third = (((kind >> at) & 63).astype(array.int32) for at in (6, 12, 18))
    return Product(
        noun=(kind & 63).astype(array.int32),
        attributes=(first, second, third),
        price=(kind >> 24).astype(array.int32),
    )


def _num_uniforms(products: int) -> int:
    families = products // FAMILY
    return len(NOUNS) + products + families * (len(ATTRIBUTES) + len(VALUES) + 6)


def build(uniforms: np.ndarray | jax.Array, products: int, options: int) -> Catalogue:
    """The catalogue of uniform numbers f32[n] in [0, 1): NumPy arrays give NumPy arrays, jax gives
    jax.

    Families have different nouns. A base costs 5 to 50 dollars, its expensive sibling 41 to 49
    more, and the order of products is random.
    """
    array = np if isinstance(uniforms, np.ndarray) else jnp
    families = products // FAMILY
    sizes = [
        *(len(NOUNS), products, families * len(ATTRIBUTES)),
        *(families * len(COLOURS), families * len(SIZES), families * 6),
    ]
    nouns, order, attributes, colours, lengths, rest = array.split(
        uniforms, list(np.cumsum(sizes)[:-1])
    )

    def pick(u, low, high):
        """Integers in [low, high]; the product may round up to the end of the interval."""
        return array.minimum(low + (u * (high - low + 1)).astype(array.int32), high)

    def shuffled(u, words):
        """A random order of the words for each family, i32[families, words]."""
        return array.argsort(u.reshape(families, len(words)), axis=1).astype(array.int32)

    def offered(u, words, count):
        """Masks of the first `count` of shuffled words and of the next `count`, [families, 2]."""
        bits = np.uint32(1) << shuffled(u, words).astype(array.uint32)
        place = np.arange(len(words))
        sets = (place < count[:, None]), (place >= count[:, None]) & (place < 2 * count[:, None])
        return [array.sum(array.where(s, bits, 0), axis=1, dtype=array.uint32) for s in sets]

    rest = rest.reshape(families, 6)
    noun = array.argsort(nouns)[:families].astype(array.uint32)
    three_and_other = shuffled(attributes, ATTRIBUTES)[:, : 3 + 1].astype(array.uint32)
    swapped = pick(rest[:, 0], 0, 2)[:, None] == np.arange(3)
    base = three_and_other[:, :3]
    other = array.where(swapped, three_and_other[:, 3:], base)
    colour, other_colour = offered(colours, COLOURS, pick(rest[:, 1], 2, MAX_OFFERED))
    size, other_size = offered(lengths, SIZES, pick(rest[:, 2], 2, MAX_OFFERED))
    if options == 1:
        size = other_size = array.zeros_like(size)
    recolour = (rest[:, 3] < 0.5) | (options == 1)
    price = pick(rest[:, 4], 5, 50).astype(array.uint32)
    dear = price + pick(rest[:, 5], 41, 49).astype(array.uint32)

    def kind(attributes, price):
        packed = noun | attributes[:, 0] << 6 | attributes[:, 1] << 12 | attributes[:, 2] << 18
        return packed | price << 24

    offer = colour | size << len(COLOURS)
    other_offer = array.where(recolour, other_colour, colour)
    other_offer = other_offer | array.where(recolour, size, other_size) << len(COLOURS)
    kinds = [kind(base, price), kind(other, price), kind(base, price), kind(base, dear)]
    offers = [offer, offer, other_offer, offer]
    order = array.argsort(order)
    return Catalogue(
        kind=array.stack(kinds).reshape(-1)[order].astype(array.uint32),
        offer=array.stack(offers).reshape(-1)[order].astype(array.uint32),
    )


@functools.lru_cache(maxsize=16)
def constant(seed: int, products: int, options: int) -> Catalogue:
    """The catalogue of a seed, drawn by NumPy: the same on every machine, without touching a
    device."""
    uniforms = np.random.default_rng(seed).random(_num_uniforms(products), np.float32)
    return build(uniforms, products, options)


def draw(key: jax.Array, products: int, options: int) -> Catalogue:
    """A catalogue drawn from the key."""
    return build(jax.random.uniform(key, (_num_uniforms(products),)), products, options)


def row(catalogue: Catalogue, index: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(kind, offer) u32[] of product `index`."""
    here = np.arange(catalogue.kind.shape[0]) == index
    kind = jnp.sum(jnp.where(here, catalogue.kind, 0), dtype=jnp.uint32)
    return kind, jnp.sum(jnp.where(here, catalogue.offer, 0), dtype=jnp.uint32)


def draw_goal(key: jax.Array, catalogue: Catalogue, options: int, split: str) -> Goal:
    """A goal of a uniform product: two of its attributes, a value of each option, a price cap.

    The cap is the larger of two of the next four multiples of 10 dollars above the price. split:
    determines the pair of attributes. Of the three pairs of product i, pair i % 3 (the one without
    attribute i % 3) is "unseen", the two others are "seen".
    """
    products = catalogue.kind.shape[0]
    uniforms = jax.random.uniform(key, (3 + len(VALUES),))
    target = jnp.minimum((uniforms[0] * products).astype(jnp.int32), products - 1)
    kind, offer = row(catalogue, target)
    product = unpack(kind)
    shift = 0 if split == "unseen" else 1 + (uniforms[1] >= 0.5).astype(jnp.int32)
    left_out = (target + shift) % 3
    first, second, third = product.attributes
    pair = (jnp.where(left_out == 0, second, first), jnp.where(left_out == 2, second, third))
    # Two of four in order: the larger is index 1, 2, 3 in 1, 2, 3 of the six pairs.
    place = (uniforms[2] * 6).astype(jnp.int32)
    larger = 1 + (place >= 1) + (place >= 3)
    scores = jnp.where((offer >> np.arange(len(VALUES), dtype=np.uint32)) & 1, uniforms[3:], -1.0)
    size = jnp.argmax(scores[len(COLOURS) :]) if options == 2 else 0
    return Goal(
        target=target.astype(jnp.uint8),
        noun=product.noun.astype(jnp.uint8),
        attributes=jnp.stack([jnp.minimum(*pair), jnp.maximum(*pair)]).astype(jnp.uint8),
        colour=jnp.argmax(scores[: len(COLOURS)]).astype(jnp.uint8),
        size=jnp.asarray(size).astype(jnp.uint8),
        cap=(10 * (product.price // 10 + 1 + larger)).astype(jnp.uint8),
    )
