"""The shop in words: WebShop's text pages, and a short form of them."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envs.shop import catalogue as shop_catalogue
from envs.shop import rules
from envs.shop.catalogue import ATTRIBUTES, CATEGORIES, NOUNS, VOCABULARY
from envs.shop.env import (
    BOUGHT,
    DESCRIPTION,
    FEATURES,
    ITEM,
    RESULTS,
    REVIEWS,
    SEARCH,
    Shop,
    ShopState,
)
from envs.text import Lexicon, Query, View, template

RULES = (
    "You are in a web shop and shall buy a product that has what the instruction asks for: kind, "
    "attributes, options, and a price below the limit. Search first; open a product of the results "
    "by {items}; choose its options before you buy. Attributes that are missing in a title may "
    "stand among the features. Pages do not show which options you have chosen. Commands: search "
    "(for what is asked), search[words], {commands}."
)


def _take(table: np.ndarray, index) -> jnp.ndarray:
    return jnp.asarray(table)[jnp.clip(index, 0, len(table) - 1)]


def _longest(words: Sequence[str]) -> int:
    return max(len(word) for word in words)


def _query(env: Shop, lexicon: Lexicon) -> Query:
    """`search[...]` in both wordings."""
    return Query(
        prefix="search[",
        suffix="]",
        words=lexicon.table(VOCABULARY),
        max_words=rules.MAX_WORDS,
        action=lambda words: env.num_actions + rules.encode_query(words),
    )


def compact(env: Shop) -> View:
    """A line for the goal, then the page; each word is a fragment.

    `want warm silk shirt red m <$40`, `search`; `page 1 found 12` and the products, `1 warm silk
    shirt $23`; a product with its price and values; `description kitchen`, `features warm silk
    dry`, `reviews none`, `bought`.
    """
    lexicon = Lexicon()
    nouns = lexicon.table(f" {word}" for word in NOUNS)
    attributes = lexicon.table(f" {word}" for word in ATTRIBUTES)
    values = lexicon.table(f" {word}" for word in env.values)
    caps = lexicon.table(f" <${10 * n}" for n in range(15))
    prices = lexicon.table(f" ${n}" for n in range(100))
    numbers = lexicon.table(f"\n{i + 1}" for i in range(env.items_per_page))
    sheets = lexicon.table(f"\npage {i + 1}" for i in range(env.sheets + 1))
    found = lexicon.table(f" found {n}" for n in range(env.max_results + 1))
    categories = lexicon.table(f" {name}" for name in CATEGORIES)
    want = lexicon("want")
    heads = np.zeros(BOUGHT + 1, np.int32)
    heads[SEARCH], heads[ITEM], heads[BOUGHT] = (
        lexicon("\nsearch"),
        lexicon("\nitem"),
        lexicon("\nbought"),
    )
    heads[DESCRIPTION], heads[FEATURES], heads[REVIEWS] = (
        lexicon("\ndescription"),
        lexicon("\nfeatures"),
        lexicon("\nreviews none"),
    )

    def describe(state, params):
        goal, page = state.goal, state.page
        wanted = [want, *_take(attributes, goal.attributes), _take(nouns, goal.noun)]
        wanted += _goal_values(env, state, values)
        wanted.append(_take(caps, goal.cap // 10))
        on_results, on_item = page == RESULTS, page == ITEM
        head = jnp.where(on_results, _take(sheets, state.sheet), _take(heads, page))
        total = jnp.where(on_results, _take(found, state.found), 0)
        listed = shop_catalogue.unpack(state.kinds)
        rows = [numbers, *(_take(attributes, a) for a in listed.attributes[:2])]
        rows += [_take(nouns, listed.noun), _take(prices, listed.price)]
        rows = jnp.where((state.listed >= 0)[:, None], jnp.stack(rows, axis=1), 0)
        product = shop_catalogue.unpack(state.kind)
        category = _take(categories, product.noun // shop_catalogue.NOUNS_PER_CATEGORY)
        traits = jnp.stack([_take(attributes, a) for a in product.attributes])
        traits = jnp.where(on_item | (page == FEATURES), traits, 0)
        item = jnp.stack([_take(nouns, product.noun), _take(prices, product.price)])
        return jnp.concatenate(
            [
                jnp.stack([*wanted, head, total, jnp.where(page == DESCRIPTION, category, 0)]),
                rows.reshape(-1),
                traits[:2],
                jnp.where(page == FEATURES, traits[2], 0)[None],
                jnp.where(on_item, item, 0),
                *(jnp.where(on_item, o, 0) for o in _offered(env, state, values)),
            ]
        )

    trait, noun = _longest(ATTRIBUTES) + 1, _longest(NOUNS) + 1
    goal = 4 + 2 * trait + noun + len(" beige") + (env.options == 2) * 4 + len(" <$140")
    results = len("\npage 10 found 10") + env.items_per_page * (3 + 2 * trait + noun + 4)
    item = 5 + 2 * trait + noun + 4 + 4 * len(" beige") + (env.options == 2) * 4 * 4
    items = [f"{i + 1}" for i in range(env.items_per_page)]
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, name) for name in env.action_names),
        slots=lambda state, params: {},
        max_fragments=5 + env.options + max(2 + 5 * env.items_per_page, 5 + 4 * env.options),
        max_bytes=goal + max(results, item),
        max_command_bytes=len("description"),
        query=_query(env, lexicon),
        rules=RULES.format(
            items="its number",
            commands=f"{items[0]} to {items[-1]}, names of colours and sizes, "
            "next, prev, back, description, features, reviews, buy",
        ),
    )


def _goal_values(env: Shop, state, values: np.ndarray) -> list:
    """Fragments of the goal's option values."""
    colour = _take(values, state.goal.colour)
    if env.options == 1:
        return [colour]
    return [colour, _take(values, len(shop_catalogue.COLOURS) + state.goal.size.astype(jnp.int32))]


def _offered(env: Shop, state, values: np.ndarray) -> list:
    """Fragments of the values of each option, i32[4] each, 0 for none."""
    first = (0, len(shop_catalogue.COLOURS))
    numbers = [env.offered(state, option) for option in range(env.options)]
    return [
        jnp.where(n > 0, _take(values, first[option] + n - 1), 0)
        for option, n in enumerate(numbers)
    ]


_SEP = " [SEP] "
_FOOT = f"{_SEP}Rating: N.A.{_SEP}Description{_SEP}Features{_SEP}Reviews{_SEP}Buy Now"

_PIECES = {
    "first": "Instruction: [SEP] Find me",
    "start": "WebShop [SEP] ",
    "search": f"{_SEP}Search",
    "back": f"{_SEP}Back to Search",
    "next": f"{_SEP}Next >",
    "prev": f"{_SEP}< Prev",
    "color": f"{_SEP}color",
    "size": f"{_SEP}size",
    "foot": _FOOT,
    "no reviews": f"{_SEP}No reviews yet.",
    "bought": f"{_SEP}Thank you for shopping with us!",
}

# Buttons that are not called as the action is.
_BUTTONS = {"next": "next >", "prev": "< prev", "back": "back to search", "buy": "buy now"}


def _asin(index: int) -> str:
    """Ten characters, like Amazon's product identifiers."""
    number, digits = (index + 1) * 0x9E3779B1 % 36**8, ""
    for _ in range(8):
        number, digit = divmod(number, 36)
        digits += "0123456789abcdefghijklmnopqrstuvwxyz"[digit]
    return f"b0{digits}"


def _navigation(
    state: ShopState, pieces: Mapping[str, np.int32], sheets: np.ndarray, found: np.ndarray
) -> list[jax.Array]:
    """Fragments of the buttons of a page and, among results, of its number and their count."""
    page = state.page
    on_results, on_search = page == RESULTS, page == SEARCH
    inside = (page >= ITEM) & (page != BOUGHT)
    return [
        jnp.where(on_search, pieces["search"], 0),
        jnp.where(on_search | (page == BOUGHT), 0, pieces["back"]),
        jnp.where(on_results, _take(sheets, state.sheet), 0),
        jnp.where(on_results, _take(found, state.found), 0),
        jnp.where(inside | (on_results & (state.sheet > 0)), pieces["prev"], 0),
        jnp.where(on_results, pieces["next"], 0),
    ]


def _title(tables: tuple[np.ndarray, ...], product: Any) -> list[jax.Array]:
    """Fragments of a product's title, or of a goal: the first two attributes and the noun."""
    first, second, noun = tables
    return [
        _take(first, product.attributes[0]),
        _take(second, product.attributes[1]),
        _take(noun, product.noun),
    ]


def _longest_page(env: Shop) -> int:
    """The most bytes of a faithful page."""
    title = 2 * (_longest(ATTRIBUTES) + 1) + _longest(NOUNS)
    goal = len("WebShop [SEP] Instruction: [SEP] Find me, [SEP] Search") + 2 + title
    goal += len(" with color: beige, and size: 4xl, and price lower than 140.00 dollars")
    results = len(f"{_SEP}Back to Search{_SEP}Page 10 (Total results: 10){_SEP}< Prev{_SEP}Next >")
    results += env.items_per_page * (3 * len(_SEP) + 10 + title + len("$99.0"))
    item = len(f"{_SEP}Back to Search{_SEP}< Prev{_SEP}color{_SEP}size{_SEP}{_SEP}Price: $99.0")
    item += 4 * env.options * (len(_SEP) + 5) + title + len(_FOOT)
    return goal + max(results, item)


def faithful(env: Shop) -> View:
    """WebShop's text pages: the elements of a page, joined by ` [SEP] `.

    Source: its templates and `convert_html_to_text` with simple=True (read). Titles and the
    contents of the sub-pages are the catalogue's. The instruction is that of its synthetic goals.
    """
    lexicon = Lexicon()
    asins = lexicon.table(_asin(i) for i in range(env.products))
    listed_asins = lexicon.table(_SEP + _asin(i).upper() for i in range(env.products))
    nouns = lexicon.table(f" {word}" for word in NOUNS)
    attributes = lexicon.table(f" {word}," for word in ATTRIBUTES)
    last_attributes = lexicon.table(f" {word}" for word in ATTRIBUTES)
    traits = lexicon.table(_SEP + word.capitalize() for word in ATTRIBUTES)
    more_traits = lexicon.table(f" {word.capitalize()}" for word in ATTRIBUTES)
    titles = (traits, more_traits, lexicon.table(f" {word.capitalize()}" for word in NOUNS))
    colours = lexicon.table(f" with color: {word}" for word in shop_catalogue.COLOURS)
    sizes = lexicon.table(f", and size: {word}" for word in shop_catalogue.SIZES)
    caps = lexicon.table(f", and price lower than {10 * n}.00 dollars" for n in range(15))
    values = lexicon.table(_SEP + word for word in env.values)
    listed_prices = lexicon.table(f"{_SEP}${n}.0" for n in range(100))
    prices = lexicon.table(f"{_SEP}Price: ${n}.0" for n in range(100))
    sheets = lexicon.table(f"{_SEP}Page {i + 1}" for i in range(env.sheets + 1))
    found = lexicon.table(f" (Total results: {n})" for n in range(env.max_results + 1))
    kinds = lexicon.table(f"{_SEP}A product for: {name}." for name in CATEGORIES)
    pieces = {name: lexicon(text) for name, text in _PIECES.items()}
    options = [pieces["color"], pieces["size"]]

    def describe(state, params):
        goal, page = state.goal, state.page
        ahead = [
            jnp.where(page == SEARCH, pieces["start"], 0),
            pieces["first"],
            *_title((attributes, last_attributes, nouns), goal),
            _take(colours, goal.colour),
            *[_take(sizes, goal.size)] * (env.options == 2),
            _take(caps, goal.cap // 10),
            *_navigation(state, pieces, sheets, found),
        ]
        listed = shop_catalogue.unpack(state.kinds)
        rows = [_take(listed_asins, state.listed), *_title(titles, listed)]
        rows = jnp.stack([*rows, _take(listed_prices, listed.price)], axis=1)
        rows = jnp.where((state.listed >= 0)[:, None], rows, 0)
        product = shop_catalogue.unpack(state.kind)
        on_page = [[options[o], *v] for o, v in enumerate(_offered(env, state, values))]
        item = [fragment for option in on_page for fragment in option]
        item += [*_title(titles, product), _take(prices, product.price), pieces["foot"]]
        features = jnp.stack([_take(traits, a) for a in product.attributes])
        category = _take(kinds, product.noun // shop_catalogue.NOUNS_PER_CATEGORY)
        behind = [
            jnp.where(page == DESCRIPTION, category, 0),
            jnp.where(page == REVIEWS, pieces["no reviews"], 0),
            jnp.where(page == BOUGHT, pieces["bought"], 0),
        ]
        return jnp.concatenate(
            [
                jnp.stack(ahead),
                rows.reshape(-1),
                jnp.where(page == ITEM, jnp.stack(item), 0),
                jnp.where(page == FEATURES, features, 0),
                jnp.stack(behind),
            ]
        )

    names = env.action_names[1 + env.items_per_page :]
    clicks = [f"click[{_BUTTONS.get(name, name)}]" for name in names]

    def slots(state, params):
        return {"asin": jnp.where(state.listed >= 0, _take(asins, state.listed), 0)[:, None]}

    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, form) for form in ("search", "click[{asin}]", *clicks)),
        slots=slots,
        max_fragments=11 + env.options + max(5 * env.items_per_page, 5 + 5 * env.options),
        max_bytes=_longest_page(env),
        max_command_bytes=len("click[back to search]"),
        query=_query(env, lexicon),
        rules=RULES.format(
            items="clicking on its number",
            commands="click[x] for any x that can be clicked on the page, in small letters",
        ),
    )


WORDINGS = {"compact": compact, "faithful": faithful}
